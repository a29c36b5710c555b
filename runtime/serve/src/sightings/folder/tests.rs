//! The folder of sightings: restarts, limits, removals that are cut off, and files of others.

use tempfile::TempDir;

use super::*;
use crate::tests::warnings;

fn sighting(number: usize, label: &str) -> Sighting {
    let started = Timestamp::from_second(1_800_000_000 + number as i64).unwrap();
    Sighting {
        id: format!("{}-1", started.as_second()),
        started,
        seconds: Some(3),
        region: String::new(),
        label: label.into(),
        probability: Some(0.75),
    }
}

fn labels(folder: &SightingFolder) -> Vec<&str> {
    folder.newest_first().map(|sighting| sighting.label.as_str()).collect()
}

#[test]
fn sightings_are_there_after_a_restart_with_their_pictures() {
    let place = TempDir::new().unwrap();
    let mut folder = SightingFolder::open(&place.path().join("seen")).unwrap();
    folder.add(sighting(1, "mug, \"blue\""), Some(b"one"));
    folder.add(sighting(2, "duck"), None);
    let again = SightingFolder::open(&place.path().join("seen")).unwrap();
    assert_eq!(labels(&again), ["duck", "mug, \"blue\""]);
    assert_eq!(again.picture("1800000001-1").as_deref(), Some(&b"one"[..]));
    assert_eq!(again.picture("1800000002-1"), None);
    assert_eq!(again.picture("../seen/1800000001-1"), None);
    let text = String::from_utf8(again.csv()).unwrap();
    assert!(text.contains("1800000002-1,2027-01-15T08:00:02Z,3,,duck,0.75\n"), "{text}");
    assert_eq!(fs::read(place.path().join("seen").join(LIST_FILE)).unwrap(), again.csv());
}

#[test]
fn the_oldest_go_and_no_file_of_others() {
    let place = TempDir::new().unwrap();
    let mut folder = SightingFolder::open(place.path()).unwrap();
    for name in ["holiday.jpg", "1-1.jpg"] {
        fs::write(place.path().join(name), "a user's").unwrap();
    }
    for number in 0..=MAX_SIGHTINGS + MAX_SIGHTINGS / 10 {
        folder.add(sighting(number, "mug"), Some(b"one"));
    }
    assert_eq!(folder.sightings.len(), MAX_SIGHTINGS);
    // Pictures, two files of the user, the list.
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), MAX_SIGHTINGS + 3);
    folder.remove(|_| true).unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
    assert_eq!(fs::read_to_string(place.path().join(LIST_FILE)).unwrap(), HEADING);
}

/// Puts a folder in the place of the file, which nothing can replace then. Rights would not stop root.
fn obstruct(path: &Path) {
    fs::remove_file(path).unwrap();
    fs::create_dir(path).unwrap();
}

#[test]
fn what_cannot_be_removed_from_the_file_stays_listed() {
    let place = TempDir::new().unwrap();
    let file = place.path().join(LIST_FILE);
    let mut folder = SightingFolder::open(place.path()).unwrap();
    folder.add(sighting(1, "mug"), Some(b"one"));
    folder.add(sighting(2, "duck"), None);
    obstruct(&file);
    for _ in 0..2 {
        assert!(folder.remove(|sighting| sighting.label == "mug").is_err());
        assert_eq!(labels(&folder), ["duck", "mug"]);
        assert!(folder.problem().is_some());
    }
    assert_eq!(folder.picture("1800000001-1").as_deref(), Some(&b"one"[..]));
    fs::remove_dir(&file).unwrap();
    folder.remove(|_| true).unwrap();
    assert_eq!(folder.problem(), None);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "the empty list");
    let again = SightingFolder::open(place.path()).unwrap();
    assert!(labels(&again).is_empty());
}

#[test]
fn the_oldest_stay_while_the_file_cannot_be_written() {
    let place = TempDir::new().unwrap();
    let file = place.path().join(LIST_FILE);
    let mut folder = SightingFolder::open(place.path()).unwrap();
    let many = MAX_SIGHTINGS + MAX_SIGHTINGS / 10;
    folder.sightings = (0..many).map(|number| sighting(number, "mug")).collect();
    obstruct(&file);
    assert!(folder.remove_oldest().is_ok(), "they are not too many yet");
    folder.add(sighting(many, "mug"), None);
    assert!(folder.problem().is_some() && folder.remove_oldest().is_err());
    assert_eq!(folder.sightings.len(), many + 1);
    folder.sightings.extend((many + 1..MAX_UNWRITTEN).map(|number| sighting(number, "mug")));
    folder.add(sighting(MAX_UNWRITTEN, "mug"), None);
    assert_eq!(folder.sightings.len(), MAX_UNWRITTEN);
    fs::remove_dir(&file).unwrap();
    folder.add(sighting(MAX_UNWRITTEN + 1, "mug"), None);
    assert_eq!((folder.sightings.len(), folder.problem()), (MAX_SIGHTINGS, None));
    assert_eq!(fs::read(&file).unwrap(), folder.csv());
}

#[test]
fn a_line_that_is_cut_off_is_left_out_and_what_leads_elsewhere_is_no_id() {
    let place = TempDir::new().unwrap();
    let mut folder = SightingFolder::open(place.path()).unwrap();
    folder.add(sighting(1, "mug"), None);
    let mut text = folder.csv();
    text.extend(b"../../home/x,2027-01-15T08:00:02Z,3,,duck,0.75\n1800000009-1,2027-01-1");
    fs::write(place.path().join(LIST_FILE), text).unwrap();
    let again = SightingFolder::open(place.path()).unwrap();
    assert_eq!(labels(&again), ["mug"]);
    assert_eq!(fs::read(place.path().join(LIST_FILE)).unwrap(), again.csv());
}

/// Names in a folder, in order.
fn names(place: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn wherever_a_removal_is_cut_off_no_picture_is_left_without_its_line() {
    let pictures = ["1800000001-1.jpg", "1800000003-1.jpg"];
    let before = csv_of([sighting(1, "mug"), sighting(2, "duck"), sighting(3, "mug")].iter());
    let after = csv_of([sighting(2, "duck")].iter());
    // What the file says by then, and which pictures are gone already: none before the file is written.
    for (list, gone) in [(&before, 0..1), (&after, 0..4)] {
        for gone in gone {
            let place = TempDir::new().unwrap();
            let kept = |index: usize| gone & (1 << index) == 0;
            pictures.iter().enumerate().filter(|(index, _)| kept(*index)).for_each(|(_, name)| {
                fs::write(place.path().join(name), b"mug").unwrap();
            });
            fs::write(place.path().join("1800000002-1.jpg"), b"duck").unwrap();
            fs::write(place.path().join("1-1.jpg"), "a user's").unwrap();
            fs::write(place.path().join(LIST_FILE), list).unwrap();
            fs::write(place.path().join(REMOVING), "1800000001-1\n1800000003-1\n").unwrap();
            let opened = SightingFolder::open(place.path()).unwrap();
            let left: Vec<String> = opened.sightings.iter().map(|sighting| format!("{}.jpg", sighting.id)).collect();
            let expected = ["1-1.jpg", LIST_FILE].into_iter().chain(left.iter().map(String::as_str));
            let mut expected: Vec<&str> = expected.collect();
            expected.sort_unstable();
            assert_eq!(names(place.path()), expected);
        }
    }
}

#[test]
fn a_picture_that_cannot_be_removed_goes_with_the_next_removal() {
    let place = TempDir::new().unwrap();
    let mut folder = SightingFolder::open(place.path()).unwrap();
    folder.add(sighting(1, "mug"), None);
    folder.add(sighting(2, "duck"), Some(b"duck"));
    let stays = place.path().join("1800000001-1.jpg");
    fs::create_dir(&stays).unwrap();
    assert!(folder.remove(|sighting| sighting.label == "mug").is_err());
    assert_eq!(labels(&folder), ["duck"]);
    fs::remove_dir(&stays).unwrap();
    fs::write(&stays, b"mug").unwrap();
    folder.remove(|_| true).unwrap();
    assert_eq!(names(place.path()), [LIST_FILE]);
}

#[test]
fn the_newest_id_counts_also_where_the_clock_is_behind_it() {
    let place = TempDir::new().unwrap();
    let mut folder = SightingFolder::open(place.path()).unwrap();
    assert_eq!(folder.newest_id(), None);
    for id in ["2000-1", "1900-7", "99999999999999999999-1"] {
        folder.add(Sighting { id: id.into(), ..sighting(1, "mug") }, Some(b"one"));
    }
    assert_eq!(folder.newest_id(), Timestamp::from_second(2000).ok());
}

#[test]
fn a_folder_that_is_gone_for_a_while_has_all_afterwards() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("seen");
    let mut folder = SightingFolder::open(&path).unwrap();
    folder.add(sighting(1, "mug"), Some(b"one"));
    fs::remove_dir_all(&path).unwrap();
    // Something else lies there meanwhile.
    fs::write(&path, "a user's").unwrap();
    warnings();
    folder.add(sighting(2, "duck"), Some(b"two"));
    assert!(folder.problem().is_some());
    fs::remove_file(&path).unwrap();
    folder.add(sighting(3, "cone"), Some(b"three"));
    assert_eq!(folder.problem(), None);
    let shown = path.display();
    let [away, again] = &warnings()[..] else { panic!("the log has each change once") };
    assert!(away.starts_with(&format!("sightings are not written into {shown}: ")), "{away}");
    assert_eq!(*again, format!("sightings are written into {shown} again"));
    let again = SightingFolder::open(&path).unwrap();
    assert_eq!(labels(&again), ["cone", "duck", "mug"]);
    assert_eq!(again.picture("1800000003-1").as_deref(), Some(&b"three"[..]));
}

#[test]
fn a_folder_of_other_files_is_refused_and_stays_as_it_is() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("holiday.jpg"), "a user's").unwrap();
    let refused = SightingFolder::open(place.path()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("it holds other files"), "{refused}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    fs::write(place.path().join(LIST_FILE), "bird,count\nwren,3\n").unwrap();
    let refused = SightingFolder::open(place.path()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("is not one of ours"), "{refused}");
    let file = place.path().join("holiday.jpg");
    let refused = SightingFolder::open(&file).map(drop).unwrap_err().to_string();
    assert!(refused.contains("holiday.jpg"), "{refused}");
}

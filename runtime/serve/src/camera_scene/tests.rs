//! Regions and the empty place of the service's own camera, on a made-up picture.

use orco_runtime::image::Look;
use orco_runtime::image_rs::Rgb;

use super::*;
use crate::tests::warnings;

const GREY: [u8; 3] = [127; 3];

fn regions(texts: &[&str]) -> Vec<NamedRegion> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Red above, blue below, with stripes.
fn frame(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let stripe = (x / 8 % 2 * 90 + y / 16 % 2 * 40) as u8;
        Rgb(if 2 * y < height { [200, stripe, 0] } else { [0, stripe, 200] })
    })
}

#[test]
fn a_shot_is_of_its_region_whatever_the_others_are() {
    let folder = tempfile::tempdir().unwrap();
    let scene = CameraScene::of(&Store::new(folder.path()));
    let all = regions(&["shelf=0,0,1,0.5", "dot=0.5,0.5,0.01,0.01"]);
    let shelf = Viewfinder { regions: all[..1].to_vec(), fill: GREY, ..Viewfinder::default() };
    let shelf = shelf.shot(&frame(640, 360)).unwrap();
    let shot = |regions: &[NamedRegion], at| scene.shot(frame(640, 360), regions.to_vec(), at, GREY);
    assert!(shot(&all, Some([0.5, 0.2])).ok().as_ref() == Some(&shelf));
    assert!(shot(&all, None).ok().as_ref() == Some(&shelf));
    // Never the frame in the place of a region.
    for refused in [shot(&all[1..], None), shot(&all, Some([0.505, 0.505]))] {
        let refused = refused.err().unwrap();
        assert_eq!(refused.status(), 409);
        assert!(refused.sentence.contains("is too small: at least 16 x 16 pixels are needed"), "{}", refused.sentence);
    }
}

#[test]
fn the_region_that_was_tapped_counts_also_where_the_empty_place_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let scene = CameraScene::of(&Store::new(folder.path()));
    scene.learn(&[frame(320, 240)], &[]).unwrap();
    let all = regions(&["upper=0,0,1,0.5", "lower=0,0.5,1,0.5"]);
    let shot = scene.shot(frame(640, 360), all, Some([0.5, 0.8]), GREY).ok().unwrap();
    assert_eq!(shot.get_pixel(shot.width() / 2, shot.height() / 2)[0], 0, "the upper region is red");
}

#[test]
fn a_place_that_does_not_fit_is_told_with_the_size_that_the_camera_gives() {
    let folder = tempfile::tempdir().unwrap();
    let scene = CameraScene::of(&Store::new(folder.path()));
    scene.learn(&[frame(640, 480)], &[]).unwrap();
    warnings();
    // Decoded at a scale of 1/4.
    assert!(!is_things(&scene.see(&frame(1152, 648), &|| [4608, 2592], &[])[0]));
    assert!(!is_things(&scene.see(&frame(1152, 648), &|| [4608, 2592], &[])[0]));
    let problem = scene.status().problem.unwrap();
    assert!(problem.contains("with another size than the camera's frames have now, 4608 x 2592:"), "{problem}");
    assert_eq!(warnings(), [format!("camera: {problem}")], "once, not for each frame");
    assert!(is_things(&scene.see(&frame(640, 480), &|| [640, 480], &[])[0]));
    assert_eq!(
        (warnings(), scene.status().state()),
        (vec!["camera: the empty place can be used again".into()], "shown")
    );
}

/// A table, with a mug or without.
fn table(has_mug: bool) -> RgbImage {
    RgbImage::from_fn(320, 240, |x, y| {
        let is_mug = has_mug && x.abs_diff(160).pow(2) + y.abs_diff(120).pow(2) < 30 * 30;
        Rgb(if is_mug { [40, 60, 150] } else { [(90 + x / 8) as u8, (120 + y / 6) as u8, 110] })
    })
}

#[test]
fn a_thing_that_was_there_when_the_place_was_shown_is_told_once_it_is_gone_and_answers_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let scene = CameraScene::of(&Store::new(folder.path()));
    scene.learn(&[table(true)], &[]).unwrap();
    let see = |frame: &RgbImage, second| {
        let seen = scene.compare(frame, &|| [320, 240], &[], Duration::from_secs(second));
        (seen.is_some_and(|foregrounds| foregrounds[0].things().len() == 1), scene.status())
    };
    assert_eq!(see(&table(true), 0), (false, scene.status()));
    for second in 1..12 {
        let (is_thing, status) = see(&table(false), second);
        assert_eq!((is_thing, status.hole), (true, None), "{second}");
    }
    for second in 12..20 {
        see(&table(false), second);
    }
    let (is_thing, status) = see(&table(false), 20);
    let told = status.json();
    assert_eq!((is_thing, &told["state"], &told["problem"]), (true, &json!("shown"), &Value::Null));
    assert!(told["advice"].as_str().unwrap().ends_with("show the empty place again"), "{told}");
    let [x, y, width, height] = status.hole.unwrap();
    let off = [x - 130.0 / 320.0, y - 90.0 / 240.0, width - 60.0 / 320.0, height - 60.0 / 240.0];
    assert!(off.iter().all(|off| off.abs() < 0.04), "{told}");
    scene.learn(&[table(false)], &[]).unwrap();
    assert_eq!(scene.status().json()["advice"], Value::Null);
}

#[test]
fn a_place_that_looks_as_it_did_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path());
    let scene = CameraScene::of(&store);
    scene.learn(&[frame(320, 240)], &[]).unwrap();
    let kept = || std::fs::read(BackgroundFile::of(store.folder()).path()).unwrap();
    let (learned, later) = (kept(), |times: u32| times * SAVE_INTERVAL + Duration::from_secs(1));
    assert!(scene.compare(&frame(320, 240), &|| [320, 240], &[], later(1)).is_some());
    assert!(kept() == learned, "nothing has changed");
    let mut brighter = frame(320, 240);
    brighter.iter_mut().for_each(|value| *value = *value / 5 * 6);
    assert!(scene.compare(&brighter, &|| [320, 240], &[], later(1)).is_some());
    assert!(kept() == learned, "it is not time");
    assert!(scene.compare(&brighter, &|| [320, 240], &[], later(2)).is_some());
    assert!(kept() != learned, "the light has changed");
}

#[test]
fn a_place_that_another_program_keeps_or_forgets_is_taken_up() {
    let folder = tempfile::tempdir().unwrap();
    let [state, away] = ["state", "away"].map(|name| folder.path().join(name));
    let (scene, kept) = (CameraScene::of(&Store::new(&state)), BackgroundFile::of(&state));
    let keep = || kept.keep(&Background::learn(&[frame(320, 240)]).unwrap()).unwrap();
    let look = |times: u32| {
        scene.take_up_changes_at(times * CHECK_INTERVAL);
        scene.status().frame
    };
    assert_eq!(look(1), None);
    keep();
    assert_eq!(look(2), Some([320, 240]));
    scene.learn(&[frame(640, 360)], &[]).unwrap();
    assert_eq!(look(3), Some([640, 360]), "it is the service's own");
    keep();
    assert_eq!(look(4), Some([320, 240]));
    std::fs::rename(&state, &away).unwrap();
    assert_eq!(look(5), Some([320, 240]), "the folder may come back");
    std::fs::rename(&away, &state).unwrap();
    assert!(kept.forget().unwrap());
    assert_eq!(look(6), None);
}

fn is_things(seen: &SeenRegion) -> bool {
    matches!(seen.view, SceneView::Things(_))
}

#[test]
fn a_region_that_is_too_small_keeps_its_name_and_says_so() {
    let all = regions(&["dot=0.5,0.5,0.01,0.01", "shelf=0,0,1,0.5"]);
    let [dot, shelf] = &SeenRegion::all_of(&frame(640, 360), &all)[..] else { panic!("there are two") };
    assert_eq!((&*dot.name, dot.shares), ("dot", Some([0.5, 0.5, 0.01, 0.01])));
    assert!(matches!(&dot.view, SceneView::TooSmall(problem) if problem.contains("is too small")));
    assert_eq!((shelf.bounds.unwrap().height, matches!(shelf.view, SceneView::Whole)), (180, true));
    // What the place shows goes to the region that is analysed.
    let folder = tempfile::tempdir().unwrap();
    let scene = CameraScene::of(&Store::new(folder.path()));
    scene.learn(&[frame(640, 360)], &[]).unwrap();
    let are_things = |seen: &[SeenRegion]| -> Vec<bool> { seen.iter().map(is_things).collect() };
    assert_eq!(are_things(&scene.see(&frame(640, 360), &|| [640, 360], &all)), [false, true]);
    assert_eq!(are_things(&scene.see(&frame(640, 360), &|| [640, 360], &[])), [true]);
    // Larger, yet no thing could ever be found in it in a frame of that size.
    scene.learn(&[frame(1280, 720)], &[]).unwrap();
    let all = regions(&["dot=0.5,0.5,0.0135,0.025", "shelf=0,0,1,0.5"]);
    let [dot, shelf] = &scene.see(&frame(1280, 720), &|| [1280, 720], &all)[..] else { panic!("there are two") };
    assert!(matches!(&dot.view, SceneView::TooSmall(problem) if problem.contains("each side needs 2 %")));
    assert!(is_things(shelf));
    let refused = scene.shot(frame(1280, 720), all, Some([0.505, 0.505]), GREY).err().unwrap();
    assert!(refused.sentence.contains("is too small for things"), "{}", refused.sentence);
}

#[test]
fn frames_are_decoded_so_that_the_smallest_region_has_what_the_backbone_sees() {
    let input = Preprocessing { width: 32, height: 32, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
    let side = |texts: &[&str]| decoded_side_for(&input, &regions(texts), [1920, 1080]);
    assert_eq!((side(&[]), side(&["shelf=0,0,1,0.5"])), (256, 256));
    // 77 x 54 pixels, of which 32 x 23 are enough.
    let lamp = side(&["shelf=0,0,1,0.5", "lamp=0.5,0.5,0.04,0.05"]);
    assert!((450..=452).contains(&lamp), "{lamp}");
    // 19 x 108 pixels: no side may have fewer than 16.
    let slit = side(&["slit=0.5,0.5,0.01,0.1"]);
    assert!((950..=960).contains(&slit), "{slit}");
    assert_eq!(side(&["dot=0.5,0.5,0.001,0.001"]), 1080, "no more than there is");
}

#[test]
fn frames_are_decoded_so_that_a_place_that_was_shown_in_full_size_fits() {
    let input = Preprocessing { width: 32, height: 32, mean: [0.5; 3], deviation: [0.5; 3], look: Look::WHOLE };
    for size in [[600, 600], [520, 620], [640, 512], [1224, 1024], [1280, 720]] {
        let side = decoded_side_for(&input, &[], size);
        let reduced = |scale: u32| size.map(|length| length.div_ceil(scale));
        let has_enough = |scale: &u32| reduced(*scale).iter().all(|length| *length >= side);
        let [width, height] = reduced([8, 4, 2, 1].into_iter().find(has_enough).unwrap());
        let place = Background::learn(&[frame(size[0], size[1])]).unwrap();
        assert!(place.compare(&frame(width, height), None).is_ok(), "{size:?} by {width} x {height}");
    }
}

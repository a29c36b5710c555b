//! The few-shot class-incremental split: which image plays which part.

use orco_core::random::Random;

use super::Images;
use super::session_lists::{ListError, ListNames, ListReader, SessionLists};
use crate::config::{MeasureOn, SHOTS, SplitConfig};

/// Why a split could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// A session list does not fit.
    #[error(transparent)]
    List(#[from] ListError),
    /// A class has too few images.
    #[error("class {class}{name} has {actual} training images, but the recipe needs {expected}; {remedy}")]
    TooFew {
        /// The class.
        class: usize,
        /// Its name in brackets, if it is known.
        name: String,
        /// Images wanted.
        expected: usize,
        /// Images there.
        actual: usize,
        /// What to do.
        remedy: &'static str,
    },
    /// Of some classes together there is no image to measure on.
    #[error(
        "no test image shows {}, so nothing can be measured of them; add some of one of these classes at least, or let \
         split.measure_on be \"holdout\"",
        unmeasured(*session)
    )]
    Unmeasured {
        /// The session whose classes these are, 0 for the base classes.
        session: usize,
    },
}

/// The classes of a session, in words.
fn unmeasured(session: usize) -> String {
    if session == 0 { "a base class".to_owned() } else { format!("a class of session {session}") }
}

impl SplitError {
    /// Names the class that has too few images, or that a list gets wrong.
    pub(super) fn with_class_names(mut self, names: &[String]) -> Self {
        let named = match &mut self {
            Self::TooFew { class, name, .. } => Some((*class, name)),
            Self::List(ListError::Class { class, name, .. } | ListError::Draw { class, name, .. }) => {
                Some((usize::from(*class), name))
            }
            _ => None,
        };
        if let Some((class, name)) = named
            && let Some(known) = names.get(class)
        {
            *name = format!(" ({known})");
        }
        self
    }

    /// Says why a list may name an image in vain: its folder is unknown, or the seed made it a test image.
    pub(super) fn with_list_remedy(mut self, names: &ListNames, test_seed: Option<u64>) -> Self {
        if let Self::List(ListError::Name { text, remedy, .. }) = &mut self {
            *remedy = match test_seed {
                _ if !names.know_folder_of(text) => {
                    "; none lies in such a folder: take lists of this data set, with a line CLASS/FILE for each shot"
                        .into()
                }
                Some(seed) => format!(
                    "; seed {seed} drew the test images, perhaps this one among them: take the seed that the lists were \
                     written with, or set the test images apart in the folder test"
                ),
                None => String::new(),
            };
        }
        self
    }
}

/// One incremental session.
#[derive(Clone, Debug)]
pub struct SessionSplit {
    /// Its classes, rising.
    pub classes: Vec<u16>,
}

/// Indices of training images and of measured images, by role.
#[derive(Clone, Debug)]
pub struct Split {
    /// Number of base classes, labels `0..base_classes`.
    pub base_classes: usize,
    /// Training images of base classes that training may see.
    pub base: Vec<usize>,
    /// Training images of base classes by which a device chooses its border. They are not among `base` unless
    /// `set_aside_per_class` is 0, or no class has images to spare ([`Split::unseen`]).
    pub set_aside: Vec<usize>,
    /// Training images of base classes that were held out and on which nothing is measured: no phase sees them.
    pub held_out: Vec<usize>,
    /// The incremental sessions.
    pub sessions: Vec<SessionSplit>,
    /// For each incremental class, in order of label: candidate shots among the training images. Where the field's
    /// lists were given, its fixed draw comes first.
    pub candidates: Vec<Vec<usize>>,
    /// Whether `candidates` begin with the field's fixed draw.
    pub fixed_draw: bool,
    /// Images on which accuracy is measured: of the test set, or held-out training images.
    pub measured: Vec<usize>,
}

impl Split {
    /// Images of base classes that were set aside and that no training sees.
    pub fn unseen(&self) -> &[usize] {
        let seen = self.set_aside.first().is_some_and(|index| self.base.binary_search(index).is_ok());
        if seen { &[] } else { &self.set_aside }
    }

    /// Classes of the split that no measured image shows, rising; `measured` are the images that its indices are of.
    pub fn unmeasured(&self, measured: &Images) -> Vec<usize> {
        let mut is_shown = vec![false; self.base_classes + self.candidates.len()];
        self.measured.iter().for_each(|&index| is_shown[usize::from(measured.labels[index])] = true);
        (0..is_shown.len()).filter(|&class| !is_shown[class]).collect()
    }

    /// Makes the split of `train` (and `test`, when that is measured on). With `lists`, these name the first draw of
    /// shots.
    ///
    /// # Errors
    /// [`SplitError`] if a class has too few images or a list of the field does not fit.
    pub fn new(
        config: &SplitConfig,
        candidates_per_class: usize,
        train: &Images,
        test: &Images,
        lists: Option<SessionLists<'_>>,
        seed: u64,
    ) -> Result<Self, SplitError> {
        let sessions = sessions(config);
        let mut of_class = images_of_classes(train, config.classes());
        let fixed = match lists {
            Some(lists) => fixed_draw(lists, train, &sessions, of_class.len())?,
            None => vec![Vec::new(); of_class.len()],
        };
        let drawn = hold_out(&mut of_class, &fixed, config, candidates_per_class, seed)?;
        let (measured, mut held_out) = match config.measure_on {
            MeasureOn::Holdout => (drawn, Vec::new()),
            MeasureOn::Test => {
                let is_known = |index: &usize| usize::from(test.labels[*index]) < of_class.len();
                demand_test_images(config, test)?;
                ((0..test.len()).filter(is_known).collect(), drawn)
            }
        };
        held_out.retain(|&index| usize::from(train.labels[index]) < config.base_classes);
        let mut candidates = of_class.split_off(config.base_classes);
        candidates.iter_mut().for_each(|members| members.truncate(candidates_per_class));
        let (base, set_aside) = base_and_set_aside(of_class, config.set_aside_per_class);
        Ok(Self {
            base_classes: config.base_classes,
            base,
            set_aside,
            held_out,
            sessions,
            candidates,
            fixed_draw: lists.is_some(),
            measured,
        })
    }
}

/// The classes of each incremental session.
fn sessions(config: &SplitConfig) -> Vec<SessionSplit> {
    let first = |session: usize| config.base_classes + session * config.ways;
    let classes = |session| (first(session)..first(session + 1)).map(|class| class as u16).collect();
    (0..config.sessions).map(|session| SessionSplit { classes: classes(session) }).collect()
}

/// Refuses a test set without any image of the base classes, or of those of a session: a mean over no class is no
/// number.
fn demand_test_images(config: &SplitConfig, test: &Images) -> Result<(), SplitError> {
    let mut measured = vec![false; config.sessions + 1];
    for &label in &test.labels {
        let session = usize::from(label).checked_sub(config.base_classes).map_or(0, |new| 1 + new / config.ways);
        measured.iter_mut().skip(session).take(1).for_each(|measured| *measured = true);
    }
    match measured.iter().position(|measured| !measured) {
        Some(session) => Err(SplitError::Unmeasured { session }),
        None => Ok(()),
    }
}

/// Indices of the images of each of the first `classes` classes, rising.
fn images_of_classes(train: &Images, classes: usize) -> Vec<Vec<usize>> {
    let mut of_class = vec![Vec::new(); classes];
    for (index, &label) in train.labels.iter().enumerate() {
        if let Some(members) = of_class.get_mut(usize::from(label)) {
            members.push(index);
        }
    }
    of_class
}

/// The shots of each class that the field's lists name.
fn fixed_draw(
    lists: SessionLists<'_>,
    train: &Images,
    sessions: &[SessionSplit],
    classes: usize,
) -> Result<Vec<Vec<usize>>, SplitError> {
    let reader = ListReader::new(train, lists.names);
    let mut fixed = vec![Vec::new(); classes];
    for (number, session) in sessions.iter().enumerate() {
        reader.read(&lists.folder.join(format!("session_{}.txt", number + 2)), &session.classes, &mut fixed)?;
    }
    Ok(fixed)
}

/// Shuffles the images of each class, takes those out that are held out, and puts the fixed draw first.
fn hold_out(
    of_class: &mut [Vec<usize>],
    fixed: &[Vec<usize>],
    config: &SplitConfig,
    candidates_per_class: usize,
    seed: u64,
) -> Result<Vec<usize>, SplitError> {
    let mut random = Random::new(seed, "split");
    let mut held_out = Vec::new();
    for (class, (members, fixed)) in of_class.iter_mut().zip(fixed).enumerate() {
        check_count(class, members.len(), config, candidates_per_class)?;
        // The field's shots are set apart before anything is drawn, and come first among the candidates.
        members.retain(|index| !fixed.contains(index));
        random.shuffle(members);
        held_out.extend(members.drain(..config.holdout_per_class));
        members.splice(..0, fixed.iter().copied());
    }
    Ok(held_out)
}

/// Refuses a class with too few images for what the recipe wants of it.
fn check_count(class: usize, actual: usize, config: &SplitConfig, candidates: usize) -> Result<(), SplitError> {
    // Base classes have no candidates, but one image at least to be trained on.
    let is_base = class < config.base_classes;
    let expected = config.holdout_per_class.saturating_add(if is_base { 1 } else { candidates.max(1) });
    if actual >= expected {
        return Ok(());
    }
    let remedy = match (is_base, config.holdout_per_class) {
        (true, 0) => "lower split.base_classes, or give it images",
        (true, _) => "lower split.holdout_per_class, or give it more images",
        // Fewer candidates than shots are not allowed.
        (false, _) if actual < SHOTS => "give it more images: a draw of shots takes 5",
        (false, holdout) if actual < holdout.saturating_add(SHOTS) => {
            "lower split.holdout_per_class, or give it more images: a draw of shots takes 5"
        }
        (false, 0) => "lower export.candidates_per_class, or give it more images",
        (false, _) => "lower export.candidates_per_class or split.holdout_per_class, or give it more images",
    };
    Err(SplitError::TooFew { class, name: String::new(), expected, actual, remedy })
}

/// What of the base classes is trained on, rising, and what is set aside: `per_class` images of each at most, a fifth
/// of them at most. With 0, or where no class has five, some of those that are trained on are set aside as well:
/// without any, a device could choose no border.
fn base_and_set_aside(mut of_class: Vec<Vec<usize>>, per_class: usize) -> (Vec<usize>, Vec<usize>) {
    let mut set_aside = Vec::new();
    let can_spare = per_class > 0 && of_class.iter().any(|members| members.len() >= 5);
    for members in &mut of_class {
        let fifth = members.len() / 5;
        if can_spare {
            set_aside.extend(members.drain(..per_class.min(fifth)));
        } else {
            set_aside.extend(members.iter().take(SHOTS.min(fifth.max(1))));
        }
    }
    let mut base = of_class.concat();
    base.sort_unstable();
    (base, set_aside)
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;

    fn images(classes: u16, each: usize) -> Images {
        let labels: Vec<u16> = (0..classes).flat_map(|class| std::iter::repeat_n(class, each)).collect();
        let pixels = Tensor::zeros([labels.len() as i64, 3, 2, 2], (Kind::Uint8, Device::Cpu));
        Images { pixels, labels }
    }

    fn config(measure_on: MeasureOn) -> SplitConfig {
        SplitConfig { base_classes: 2, sessions: 2, ways: 1, holdout_per_class: 3, set_aside_per_class: 0, measure_on }
    }

    #[test]
    fn held_out_images_are_never_trained_on() {
        let (train, test) = (images(4, 20), images(4, 5));
        let split = Split::new(&config(MeasureOn::Holdout), 6, &train, &test, None, 1).unwrap();
        assert_eq!((split.base.len(), split.measured.len()), (2 * 17, 4 * 3));
        assert!(split.measured.iter().all(|index| !split.base.contains(index)));
        assert!(split.candidates.iter().flatten().all(|index| !split.measured.contains(index)));
    }

    #[test]
    fn base_images_that_are_held_out_from_all_are_known() {
        let (train, test) = (images(4, 20), images(4, 5));
        let split = |measure_on| Split::new(&config(measure_on), 6, &train, &test, None, 1).unwrap();
        let split_of_test = split(MeasureOn::Test);
        assert_eq!((split_of_test.held_out.len(), split_of_test.measured.len()), (2 * 3, 4 * 5));
        for index in &split_of_test.held_out {
            assert!(train.labels[*index] < 2 && !split_of_test.base.contains(index));
            assert!(!split_of_test.set_aside.contains(index));
        }
        assert!(split(MeasureOn::Holdout).held_out.is_empty(), "what is measured on promises nothing");
    }

    #[test]
    fn images_that_are_set_aside_are_not_trained_on_unless_none_are() {
        let (train, test) = (images(4, 20), images(4, 5));
        let split = |set_aside_per_class| {
            let config = SplitConfig { set_aside_per_class, ..config(MeasureOn::Holdout) };
            Split::new(&config, 6, &train, &test, None, 1).unwrap()
        };
        // A fifth of 17 at most.
        for (wanted, count) in [(2, 2), (5, 3)] {
            let split = split(wanted);
            assert_eq!((split.base.len(), split.set_aside.len()), (2 * (17 - count), 2 * count));
            assert!(split.set_aside.iter().all(|index| !split.base.contains(index)));
            assert!(split.set_aside.iter().all(|index| !split.measured.contains(index)));
        }
        let seen = split(0);
        assert_eq!((seen.base.len(), seen.set_aside.len()), (2 * 17, 2 * 3));
        assert!(seen.set_aside.iter().all(|index| seen.base.contains(index)));
    }

    #[test]
    fn where_no_class_has_images_to_spare_some_that_are_trained_on_are_set_aside() {
        let split = |of: &[usize], set_aside_per_class| {
            let of = of.iter().enumerate();
            let labels: Vec<u16> = of.flat_map(|(class, count)| std::iter::repeat_n(class as u16, *count)).collect();
            let train = Images { labels: labels.clone(), ..images(1, labels.len()) };
            let config = SplitConfig { holdout_per_class: 0, set_aside_per_class, ..config(MeasureOn::Test) };
            Split::new(&config, 5, &train, &images(4, 1), None, 1).unwrap()
        };
        for per_class in [0, 5] {
            let few = split(&[4, 1, 5, 5], per_class);
            assert_eq!((few.base.len(), few.set_aside.len(), few.unseen().len()), (5, 2, 0), "{per_class}");
            assert!(few.set_aside.iter().all(|index| few.base.contains(index)));
        }
        // One class that can spare an image is enough for samples that no training sees.
        let enough = split(&[4, 5, 5, 5], 5);
        assert_eq!((enough.base.len(), enough.unseen().len()), (8, 1));
    }

    #[test]
    fn classes_without_a_measured_image_are_known() {
        let (train, test) = (images(4, 20), Images { labels: vec![1, 3, 2, 1], ..images(4, 1) });
        let split = Split::new(&config(MeasureOn::Test), 6, &train, &test, None, 1).unwrap();
        assert_eq!(split.unmeasured(&test), [0]);
        let held_out = Split::new(&config(MeasureOn::Holdout), 6, &train, &test, None, 1).unwrap();
        assert!(held_out.unmeasured(&train).is_empty());
    }

    #[test]
    fn a_class_with_too_few_images_is_named() {
        let names: Vec<String> = (0..4).map(|class| format!("bird {class}")).collect();
        let said = |candidates, each| {
            let (train, test) = (images(4, each), images(4, 1));
            let split = Split::new(&config(MeasureOn::Holdout), candidates, &train, &test, None, 1);
            split.map_err(|error| error.with_class_names(&names).to_string())
        };
        assert!(said(5, 8).is_ok());
        // Base classes, 0 and 1, do with less.
        assert_eq!(
            said(6, 8).unwrap_err(),
            "class 2 (bird 2) has 8 training images, but the recipe needs 9; lower export.candidates_per_class or \
             split.holdout_per_class, or give it more images"
        );
        // Fewer candidates would not be enough, or would be fewer than shots.
        let (held_out, none) = (said(10, 7).unwrap_err(), said(10, 4).unwrap_err());
        assert!(
            held_out
                .ends_with("needs 13; lower split.holdout_per_class, or give it more images: a draw of shots takes 5")
        );
        assert!(
            none.ends_with(
                "has 4 training images, but the recipe needs 13; give it more images: a draw of shots takes 5"
            )
        );
        let base = said(5, 3).unwrap_err();
        assert!(base.contains("class 0 (bird 0) has 3") && base.contains("needs 4; lower split.holdout"), "{base}");
    }

    #[test]
    fn a_test_set_shows_base_classes_and_some_of_every_session() {
        let train = images(4, 20);
        let split = |labels: &[u16]| {
            let test = Images { labels: labels.to_vec(), ..images(labels.len() as u16, 1) };
            Split::new(&config(MeasureOn::Test), 6, &train, &test, None, 1)
        };
        // Of the base classes 0 and 1, one is enough. Class 4 is in no session.
        assert_eq!(split(&[1, 3, 2]).unwrap().measured.len(), 3);
        for (labels, session, classes) in [
            (&[2, 3][..], 0, "a base class"),
            (&[0, 3][..], 1, "a class of session 1"),
            (&[0, 2, 4][..], 2, "session 2"),
        ] {
            let error = split(labels).unwrap_err();
            assert!(matches!(error, SplitError::Unmeasured { session: found } if found == session), "{error}");
            assert!(error.to_string().starts_with("no test image shows ") && error.to_string().contains(classes));
        }
    }

    #[test]
    fn the_fixed_draw_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let lists = Some(SessionLists { folder: folder.path(), names: &ListNames::Numbers });
        std::fs::write(folder.path().join("session_2.txt"), "45\n41\n42\n43\n44\n").unwrap();
        std::fs::write(folder.path().join("session_3.txt"), "79\n78\n77\n76\n75\n").unwrap();
        let (train, test) = (images(4, 20), images(4, 5));
        let split = Split::new(&config(MeasureOn::Test), 6, &train, &test, lists, 1).unwrap();
        assert_eq!(split.candidates[0][..2], [45, 41]);
        assert_eq!(split.candidates[1][0], 79);
        let held = Split::new(&config(MeasureOn::Holdout), 6, &train, &test, lists, 1).unwrap();
        assert!(held.candidates.iter().flatten().all(|index| !held.measured.contains(index)));
        std::fs::write(folder.path().join("session_3.txt"), "79\n79\n").unwrap();
        let few = Split::new(&config(MeasureOn::Test), 6, &train, &test, lists, 1);
        assert!(matches!(few, Err(SplitError::List(ListError::Draw { class: 3, actual: 1, .. }))));
        std::fs::write(folder.path().join("session_3.txt"), "0\n").unwrap();
        let wrong = Split::new(&config(MeasureOn::Test), 6, &train, &test, lists, 1);
        assert!(matches!(wrong, Err(SplitError::List(ListError::Class { index: 0, class: 0, .. }))));
    }
}

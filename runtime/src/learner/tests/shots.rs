//! Pictures and features that are no shots.

use super::*;

#[test]
fn pictures_that_are_not_fit_to_be_shots_are_refused_where_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    let shots = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/shots/learn/mug");
    let good = crate::image::open(shots.join("1.jpg")).unwrap();
    let pictures = [good.clone(), RgbImage::new(48, 32), good];
    let mut with = |checks| {
        learner.settings_mut().shot_checks = checks;
        let made = learner.learn_many(&[("mug", Shots::Pictures(&pictures))], &mut ());
        (made.map(|_| ()), learner.doubtful_shots().to_vec(), learner.state().classes.len())
    };
    let (refused, doubtful, classes) = with(ShotChecks::Refuse);
    let Err(ChangeError::Shots(ShotsError::Unfit(unfit))) = refused else { panic!("{refused:?}") };
    let said = ["picture 2 of mug is too dark", "picture 3 of mug is nearly the same picture as picture 1 of mug"];
    assert_eq!(unfit.iter().map(ToString::to_string).collect::<Vec<_>>(), said);
    assert_eq!((doubtful.len(), classes), (0, 0));
    let (made, doubtful, classes) = with(ShotChecks::Warn);
    made.unwrap();
    assert_eq!((doubtful, classes), (unfit, 1));
    learner.forget("mug", &mut ()).unwrap().durable().unwrap();
    learner.settings_mut().shot_checks = ShotChecks::Off;
    learner.learn_many(&[("mug", Shots::Pictures(&pictures))], &mut ()).unwrap().durable().unwrap();
    assert!(learner.doubtful_shots().is_empty());
}

#[test]
fn features_of_another_bundle_are_refused_though_they_fill_whole_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    let inputs = learner.base_model().head.inputs;
    let pictures = plain_pictures();
    for shape in [(3, 4, 10 * inputs), (3, 4, inputs / 2), (3, 0, inputs)] {
        let features = Array3::ones(shape);
        let with_pictures = Shots::WithFeatures { pictures: &pictures, features: features.view() };
        for shots in [Shots::Features(features.view()), with_pictures] {
            let refused = learner.learn("mug", shots).unwrap_err();
            let (_, views, length) = shape;
            let sentence = format!(
                "the features of mug have {views} views of {length} numbers, but this bundle wants one or more views of {inputs}"
            );
            assert_eq!(refused.to_string(), sentence);
        }
    }
    assert!(learner.state().classes.is_empty());
}

#[test]
#[should_panic(expected = "rows have another length")]
fn features_of_another_bundle_are_not_classified() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    let features = Array2::ones((1, 10 * learner.base_model().head.inputs));
    learner.classify_features(features.view());
}

#[test]
fn pictures_without_pixels_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    let (empty, narrow) = (RgbImage::default(), RgbImage::new(0, 32));
    for picture in [&empty, &narrow] {
        assert!(matches!(learner.classify(picture), Err(EncodeError::NoPixels)));
        assert!(matches!(learner.shot_features(picture), Err(EncodeError::NoPixels)));
        let pictures = [plain_pictures()[1].clone(), picture.clone()];
        let features = features(&learner, 1, 2);
        let with_features = Shots::WithFeatures { pictures: &pictures, features: features.view() };
        for shots in [Shots::Pictures(&pictures), with_features] {
            let refused = learner.learn("mug", shots).unwrap_err();
            assert!(matches!(refused, ChangeError::Shots(ShotsError::NoPixels { .. })), "{refused:?}");
            assert_eq!(refused.to_string(), "picture 2 of mug has no pixels");
        }
    }
}

#[test]
fn pictures_and_features_are_of_as_many_shots() {
    let folder = tempfile::tempdir().unwrap();
    let mut learner = learner(folder.path());
    learner.settings_mut().keep_shots = true;
    let pictures = plain_pictures();
    for shots in [2, 4] {
        let features = features(&learner, 1, shots);
        let unequal = Shots::WithFeatures { pictures: &pictures, features: features.view() };
        let refused = learner.learn("mug", unequal).unwrap_err().to_string();
        assert_eq!(refused, format!("3 pictures, but features of {shots} shots, were given for mug"));
    }
}

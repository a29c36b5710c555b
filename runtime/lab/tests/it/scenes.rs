//! Rendered things before rendered places: small, but all of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use orco_lab::scenes::{SceneInput, ScenePlan, measure, objects_in};
use orco_render::{Class, Random, place, thing};
use orco_runtime::bundle::Bundle;
use orco_runtime::learner::pictures_in;
use tempfile::TempDir;

/// Pictures of each thing: shots, and those that are asked.
const PICTURES: usize = 7;
/// Pixels along each side of a thing's picture.
const SIDE: usize = 72;

/// One thing of each class, turned and framed otherwise in every picture, and as many places.
fn rendered(folder: &Path) -> [PathBuf; 2] {
    let [objects, places] = ["objects", "places"].map(|name| folder.join(name));
    fs::create_dir(&places).unwrap();
    std::thread::scope(|scope| {
        for (number, class) in Class::ALL.into_iter().enumerate() {
            let (objects, places) = (objects.join(class.name()), &places);
            scope.spawn(move || {
                fs::create_dir_all(&objects).unwrap();
                let stream = format!("scenes/{}", class.name());
                for picture in 0..PICTURES {
                    let thing = thing(class, SIDE, &mut Random::new(&stream, picture));
                    thing.save(objects.join(format!("{picture}.png"))).unwrap();
                }
                let place = place(320, 240, &mut Random::new("scenes/places", number));
                place.save(places.join(format!("{number}.png"))).unwrap();
            });
        }
    });
    [objects, places]
}

#[test]
fn with_an_empty_view_things_are_known_in_other_places_and_empty_ones_are_empty() {
    let folder = TempDir::new().unwrap();
    let [objects, places] = rendered(folder.path());
    let bundle = Bundle::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/everyday")).unwrap();
    let (objects, places) = (objects_in(&objects).unwrap(), pictures_in(&places).unwrap());
    let inputs = &[SceneInput::EmptyView];
    let plan = ScenePlan {
        bundle: &bundle,
        inputs,
        objects: &objects,
        places: &places,
        things_per_draw: 6,
        queries_per_thing: 2,
        seed: 1,
    };
    let results = measure(&plan).unwrap();
    let empty_view = results.inputs[0];
    assert!(empty_view.other_place >= 0.9 && empty_view.own_place >= 0.95, "{results:?}");
    assert!(results.empty >= 0.99 && results.missed <= 0.02, "{results:?}");
    assert!(results.two_things >= 0.8, "{results:?}");
    let known = empty_view.known.unwrap();
    assert!(known.own_place <= empty_view.own_place && known.other_place <= empty_view.other_place, "{results:?}");
    assert!(known.own_place > 0.5 && known.other_place > 0.5, "{results:?}");
    let promise = empty_view.promise.expect("five shots of six things are enough");
    assert!((promise.promised - promise.own_place_gap - empty_view.own_place).abs() < 1e-9, "{results:?}");
    assert!((promise.promised - promise.other_place_gap - empty_view.other_place).abs() < 1e-9, "{results:?}");
    let [low, high] = promise.range.unwrap();
    assert!(low <= promise.promised + 1e-6 && promise.promised <= high + 1e-6, "{results:?}");
    assert!(promise.promised > 0.5, "{results:?}");
    let few = ScenePlan { things_per_draw: 2, ..plan };
    let more = measure(&ScenePlan { places: &places[..1], ..few }).unwrap_err().to_string();
    assert!(more.starts_with("2 places are wanted"), "{more}");
    let more = measure(&ScenePlan { queries_per_thing: 3, ..few }).unwrap_err().to_string();
    assert!(more.starts_with("2 things are wanted"), "{more}");
}

#[test]
fn a_result_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let folder = TempDir::new().unwrap();
    let photograph = folder.path().join("photograph.jpg");
    fs::write(&photograph, b"\xff\xd8 a photograph").unwrap();
    let scenes = |arguments: &[&Path]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_orco-lab"));
        let done = program.arg("scenes").args(["things", "places"]).args(arguments).output().unwrap();
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let said = scenes(&["--json".as_ref(), &photograph]);
    assert!(said.contains("holds something else than a result"), "{said}");
    let missing = folder.path().join("missing/scenes.json");
    let said = scenes(&["--json".as_ref(), &missing]);
    assert!(said.contains("cannot write") && said.contains("missing"), "{said}");
    let said = scenes(&["--things".as_ref(), "1".as_ref()]);
    assert!(said.contains("2..=1000"), "{said}");
}

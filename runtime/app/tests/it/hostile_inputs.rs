//! Models and pictures that were made to do harm get one sentence, even where their checksums are right.

use std::fs;
use std::path::Path;

use image::RgbImage;
use orco_runtime::manifest::BACKBONE;
use tempfile::TempDir;

use crate::support::changed_bundle::replace;
use crate::support::{self, Device, argument, copied_bundle, shots};

/// Adds bytes to the backbone and puts its new digest into the manifest.
fn add_to_backbone(bundle: &Path, bytes: &[u8]) {
    let before = fs::read(bundle.join(BACKBONE)).unwrap();
    replace(bundle, BACKBONE, &[&before, bytes].concat());
}

#[test]
fn a_suspicious_backbone_is_refused_before_any_engine_sees_it() {
    let mug = argument("mug", &shots("learn", "mug"));
    let picture = shots("try", "mug").join("1.jpg");
    let cases = [
        // Fields of onnx.ModelProto: functions, a second graph, one that no description names.
        (&[0xca, 0x01, 0x00][..], "the backbone is refused: it brings functions or steps of training"),
        (&[0x3a, 0x00], "the backbone is refused: it is no ONNX model, or damaged: its graph cannot be read"),
        (&[0x9a, 0x06, 0x00], "the backbone is refused: its model has a field 99"),
        // A graph with a tensor whose data lie in another file.
        (&[0x3a, 0x07, 0x2a, 0x05, 0x42, 0x01, b'w', 0x70, 0x01], "the data of the tensor \"w\" lie outside the file"),
        // A graph with a sparse tensor.
        (&[0x3a, 0x02, 0x7a, 0x00], "the backbone is refused: it has sparse tensors"),
        // A graph with a node that loops.
        (
            &[0x3a, 0x08, 0x0a, 0x06, 0x22, 0x04, b'L', b'o', b'o', b'p'],
            "is of the operator \"Loop\", which is not on the list of allowed ones",
        ),
    ];
    for (bytes, expected) in cases {
        let folder = TempDir::new().unwrap();
        let bundle = copied_bundle(folder.path());
        add_to_backbone(&bundle, bytes);
        let device = Device::on(bundle);
        device.refused(&["info"], expected);
        device.refused(&["learn", &mug], expected);
        device.refused(&["classify", picture.to_str().unwrap()], expected);
    }
}

#[test]
fn a_manifest_that_was_changed_by_hand_is_named_with_the_fault() {
    let folder = TempDir::new().unwrap();
    let bundle = copied_bundle(folder.path());
    let manifest = bundle.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let picture = shots("try", "mug").join("1.jpg");
    let device = Device::on(bundle);
    for (from, to, expected) in [
        (
            "width = 32",
            "width = 48",
            "the backbone takes 3 planes of 32 x 32 pixels, but the bundle's preprocessing makes 3 of 48 x 32",
        ),
        (
            "width = 32",
            "width = 0",
            "manifest.toml cannot be used: its [preprocessing] must have width and height from 1",
        ),
        (
            "crop_scale = 0.35",
            "crop_scale = 7.0",
            "manifest.toml cannot be used: its [views] must have shares from 0 to 1",
        ),
        ("crop_scale = 0.35", "crop_scale = \"much\"", "line 11, `crop_scale = \"much\"`: invalid type: string"),
        ("width = 32", "", "line 4, `[preprocessing]`: missing field `width`"),
        ("features = 128", "features = 64", "it speaks of 64 features, but the head in learner.postcard takes 128"),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(&manifest, text.replace(from, to)).unwrap();
        device.refused(&["classify", picture.to_str().unwrap()], expected);
    }
}

#[test]
fn pictures_beyond_the_bounds_and_of_other_kinds_are_refused() {
    let device = Device::new();
    let folder = device.folder.path().join("shots");
    fs::create_dir(&folder).unwrap();
    let shot = folder.join("1.png");
    let learn = argument("x", &folder);
    let bound = "1.png is too large: at most 100 megapixels and 65535 pixels a side are accepted, as far as they can be \
                 decoded within 64 MiB; save it smaller";
    for (width, height) in [(65_536, 1), (10_000, 10_001)] {
        image::GrayImage::new(width, height).save(&shot).unwrap();
        device.refused(&["learn", &learn], bound);
    }
    fs::write(&shot, b"GIF89a\x01\0\x01\0\0\0\0;").unwrap();
    device.refused(&["learn", &learn], "1.png is a GIF file, which cannot be read: save it as JPEG or PNG");
    RgbImage::new(4608, 2592).save(&shot).unwrap();
    device.refused(&["learn", &learn], "1.png is too dark; nothing was changed");
    device.json(&["learn", "--take-anyway", &learn]);
}

/// A shot that cannot be reached is named and refused: without it, fewer would be learned from than were given.
#[test]
#[cfg(unix)]
fn shots_that_cannot_be_reached_are_named_and_nothing_is_learned() {
    use std::os::unix::fs::symlink;
    let device = Device::new();
    let folder = device.folder.path().join("shots");
    let fresh = || {
        let _ = fs::remove_dir_all(&folder);
        support::copy_folder(&shots("learn", "mug"), &folder);
    };
    let mug = argument("mug", &folder);
    let pack = device.folder.path().join("duck.orcopack");
    let refused = |expected: &str| {
        device.refused(&["learn", &mug], expected);
        let output = device.command(&["learn", &mug]).output().unwrap();
        assert!(support::text(&output.stderr).contains("nothing was changed"), "{}", support::text(&output.stderr));
    };
    fresh();
    symlink(folder.join("nowhere.jpg"), folder.join("7.jpg")).unwrap();
    symlink(folder.join("8.png"), folder.join("8.png")).unwrap();
    refused("7.jpg cannot be read");
    refused("8.png cannot be read");
    // Links that lead somewhere are shots as others are, and hidden files and folders none.
    fresh();
    symlink(shots("try", "mug").join("1.jpg"), folder.join("7.jpg")).unwrap();
    symlink(folder.join("nowhere.jpg"), folder.join(".8.jpg")).unwrap();
    fs::create_dir(folder.join("9.jpg")).unwrap();
    device.json(&["learn", &mug]);
    assert_eq!(device.saved().state.exemplars.len(), 6);
    let thumbnails = ["export", "mug", "-o", pack.to_str().unwrap(), "--thumbnails", folder.to_str().unwrap()];
    fs::remove_file(folder.join("7.jpg")).unwrap();
    symlink(folder.join("nowhere.jpg"), folder.join("7.jpg")).unwrap();
    device.refused(&thumbnails, "7.jpg cannot be read");
    assert!(!pack.exists());
    support::make_pipe(&folder.join("6.jpg"));
    device.refused(&["add", &mug], "6.jpg cannot be read: it is not a regular file");
}

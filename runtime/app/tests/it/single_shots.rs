//! Removing a single shot of a class.

use std::collections::BTreeSet;

use orco_runtime::manifest::hexadecimal;
use orco_runtime::state::State;
use serde_json::Value;

use crate::support::{Device, shots};

#[test]
fn a_single_shot_is_forgotten_by_its_picture_or_its_id_and_comes_back() {
    let device = Device::new();
    device.learn(&[("mug", &shots("learn", "mug"))]);
    let digests = |state: &State| -> BTreeSet<[u8; 32]> {
        (0..state.exemplars.len()).map(|exemplar| state.exemplars.digest_of(exemplar)).collect()
    };
    let learned = digests(&device.saved().state);
    let forget = |label: &str, shot: &str| device.json(&["forget", label, "--shot", shot]);
    let other = shots("try", "mug").join("1.jpg");
    let no_such = "\"mug\" has no such shot: ";
    device.refused(&["forget", "mug", "--shot", other.to_str().unwrap()], no_such);
    device.refused(&["forget", "mug", "--shot", &"0".repeat(64)], no_such);
    device.refused(&["forget", "cup", "--shot", other.to_str().unwrap()], "\"cup\" has no such shot: ");
    forget("mug", shots("learn", "mug").join("2.jpg").to_str().unwrap());
    let left = digests(&device.saved().state);
    let gone: Vec<[u8; 32]> = learned.difference(&left).copied().collect();
    assert_eq!((left.len(), gone.len()), (4, 1));
    let undone = device.json(&["undo"]);
    assert_eq!((&undone["exact"], digests(&device.saved().state)), (&Value::Bool(true), learned));
    forget("mug", &hexadecimal(&gone[0]));
    assert_eq!(digests(&device.saved().state), left);
    let entries = device.json(&["history"])["entries"].clone();
    assert_eq!(entries[4]["change"], "removed a shot of mug");
    for digest in left.iter().skip(1) {
        forget("mug", &hexadecimal(digest));
    }
    let last = hexadecimal(left.first().unwrap());
    device.refused(&["forget", "mug", "--shot", &last], "this is the last shot of \"mug\"; forget the class instead");
}

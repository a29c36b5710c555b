//! Which classes are answered, and labels that the bundle has already.

use std::fs;

use orco_runtime::learner::{AnswerScope, ScopeFile};

use crate::support::{Device, argument, shots, text};

#[test]
fn three_taught_classes_are_answered_alone_and_that_is_said_once() {
    let device = Device::new();
    let learn = |label: &str, folder: &str, more: &[&str]| {
        let class = argument(label, &shots("learn", folder));
        let output = device.command(&[&["learn", &class], more].concat()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let turned_on = "from now on answers name only the 3 classes that you taught";
    let list = |more: &[&str]| text(&device.command(&[&["list"], more].concat()).output().unwrap().stdout);
    assert!(list(&["--answers", "learned"]).ends_with("answers name only what was learned: 0 classes\n"));
    let first = learn("duck", "rubber-duck", &[]);
    assert!(!first.contains("from now on") && first.contains("expected accuracy on new pictures: base "), "{first}");
    let alone = text(&device.command(&["balance", "keep-base", "--answers", "learned"]).output().unwrap().stdout);
    assert!(alone.contains("expected accuracy on new pictures: an estimate needs two learned classes"), "{alone}");
    assert!(!learn("cone", "traffic-cone", &[]).contains("from now on"));
    let third = learn("mug", "mug", &[]);
    let expected = "expected accuracy on new pictures: learned classes ";
    assert!(third.contains(turned_on) && third.contains(expected) && !third.contains("if answers"), "{third}");
    for (balance, answers, is_nearly_idle) in [("balanced", "auto", true), ("favour-new", "all", false)] {
        let output = device.command(&["balance", balance, "--answers", answers]).output().unwrap();
        let said = text(&output.stdout);
        let told = "makes little difference while answers name only what was learned";
        assert_eq!(said.contains(told), is_nearly_idle, "{said}");
    }
    assert!(!learn("brick", "toy-brick", &[]).contains("from now on"), "it is on already");
    // A class that comes in a pack counts like one that was taught here.
    let other = Device::new();
    other.learn(&[("cone", &shots("learn", "traffic-cone")), ("mug", &shots("learn", "mug"))]);
    let imported = other.command(&["import", device.export("duck", &[]).to_str().unwrap()]).output().unwrap();
    assert!(text(&imported.stdout).contains(turned_on), "{}", text(&imported.stdout));
    let picture = shots("try", "rubber-duck").join("1.jpg");
    let picture = picture.to_str().unwrap();
    let count = |more: &[&str]| {
        let found = device.json(&[&["classify", picture, "--top", "200"], more].concat());
        (found["images"][0]["matches"].as_array().unwrap().len(), found["learned_only"].as_bool().unwrap())
    };
    assert_eq!(count(&[]), (4, true));
    assert_eq!(count(&["--answers", "all"]), (64, false));
    // What was chosen on the page holds where the command line names nothing.
    ScopeFile::of(device.state()).keep(AnswerScope::All).unwrap();
    assert_eq!(count(&[]), (64, false));
    assert_eq!(count(&["--answers", "learned"]), (4, true));
    fs::write(device.state().join("answers"), "some").unwrap();
    assert_eq!(count(&[]), (4, true), "what cannot be read stops nobody");
    let listed = list(&[]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[1].contains("duck") && lines[5].contains("apple"), "{listed}");
    assert!(listed.ends_with("answers name only what was learned: 4 classes\n"), "{listed}");
}

#[test]
fn whoever_teaches_single_shots_is_told_that_unknown_says_little() {
    let device = Device::new();
    let single = |class: &str| {
        let folder = device.folder.path().join(class);
        fs::create_dir(&folder).unwrap();
        fs::copy(shots("learn", class).join("1.jpg"), folder.join("1.jpg")).unwrap();
        argument(class, &folder)
    };
    let learned = |classes: &[String]| {
        let output = device.command(&["learn", "--align", "never"]).args(classes).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let told = "needs three different shots, one of which no other class has; of things with a single shot, nearly all \
                pictures may be unknown, or hardly any";
    let first = learned(&["mug"].map(single));
    assert!(first.contains("needs three different shots") && !first.contains(told), "{first}");
    let third = learned(&["cactus", "dumbbell"].map(single));
    assert!(third.contains(told), "{third}");
    // No answer names what came with the bundle any more.
    let known = "classes known before: ";
    assert!(first.contains(known) && !third.contains(known), "{first}{third}");
    let uneven = learned(&[argument("duck", &shots("learn", "rubber-duck")), single("traffic-cone")]);
    assert!(uneven.contains("that leaves out traffic-cone: "), "{uneven}");
    // The estimate below it leaves base classes out.
    assert!(uneven.contains("of their shots recognised among all classes, each left out in turn"), "{uneven}");
    assert!(!first.contains("among all classes"), "{first}");
    let twin = learned(&[argument("twin", &device.folder.path().join("mug"))]);
    let advised = twin.contains("the same shot is stored as mug and as twin: ") && twin.contains("forget LABEL --shot");
    assert!(advised, "{twin}");
}

#[test]
fn a_change_that_crosses_three_classes_says_what_answers_name() {
    let device = Device::new();
    let learned = ["mug", "cactus", "dumbbell"].map(|class| (class, shots("learn", class)));
    device.learn(&learned.each_ref().map(|(label, folder)| (*label, folder.as_path())));
    let said = |arguments: &[&str]| {
        let output = device.command(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let on = "from now on answers name only the 3 classes that you taught";
    let off = "from now on answers name the 60 classes that came with the bundle, too, until you have taught 3";
    assert!(said(&["forget", "mug"]).contains(off));
    assert!(said(&["undo"]).contains(on));
    assert!(said(&["redo"]).contains(off));
    assert!(!said(&["forget", "cactus"]).contains("from now on"), "it is off already");
    assert!(said(&["undo", "--to", "1"]).contains(on));
    assert!(said(&["forget", "mug", "--purge"]).contains(off));
    // Nor is a head called aligned that is not.
    said(&["forget", "cactus", "--align", "never"]);
    said(&["forget", "dumbbell", "--purge"]);
    let back = said(&["undo", "--align", "never"]);
    assert!(back.contains("without what was purged; `orco align` aligns the head to them"), "{back}");
}

#[test]
fn a_label_of_the_bundle_gets_shots_or_is_replaced() {
    let device = Device::new();
    let apple = argument("apple", &shots("learn", "rubber-duck"));
    device.refused(&["undo"], "nothing can be undone");
    device.refused(&["learn", &apple], "`orco learn --add-to-base` gives that class these shots");
    device.json(&["learn", &apple, "--add-to-base"]);
    let apples = || -> Vec<(u64, bool, u64)> {
        let listed = device.json(&["list"]);
        let classes = listed["classes"].as_array().unwrap().iter().filter(|class| class["label"] == "apple");
        classes
            .map(|class| {
                let number = |key: &str| class[key].as_u64().unwrap();
                (number("session"), class["replaced"].as_bool().unwrap(), number("exemplars"))
            })
            .collect()
    };
    let [(0, false, with_shots)] = apples()[..] else { panic!("{:?}", apples()) };
    device.json(&["undo"]);
    let unanswered = device.json(&["--answers", "learned", "learn", &apple, "--add-to-base"]);
    let warning = unanswered["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.starts_with("no answer names apple"), "{unanswered}");
    device.json(&["undo"]);
    device.json(&["learn", &apple, "--replace"]);
    assert_eq!(apples(), [(0, true, with_shots - 5), (1, false, 5)]);
    device.refused(&["learn", &apple, "--replace"], "\"apple\" exists already; choose another one");
    let picture = shots("try", "rubber-duck").join("1.jpg");
    let found = device.json(&["classify", picture.to_str().unwrap()]);
    assert_eq!(found["images"][0]["matches"][0]["label"], "apple", "{found}");
    let [mug, cactus] = ["mug", "cactus"].map(|class| argument(class, &shots("learn", class)));
    let learned = text(&device.command(&["learn", &mug, &cactus]).output().unwrap().stdout);
    assert!(learned.contains("--answers all names the 59 that came with the bundle, too"), "{learned}");
    device.json(&["forget", "apple"]);
    assert_eq!(apples(), [(0, false, with_shots - 5)]);
    device.refused(&["learn", &apple, &mug, "--add-to-base"], "--add-to-base takes one class");
}

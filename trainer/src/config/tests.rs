//! What a recipe must fulfil, section by section.

use orco_core::config::AnswerWeights;
use orco_runtime::manifest::{MANIFEST, Manifest};

use super::*;

fn refused(from: &str, to: &str) -> String {
    let text = include_str!("../../recipes/cifar100-edge.toml");
    assert!(text.contains(from), "{from}");
    let recipe: Recipe = toml::from_str(&text.replace(from, to)).unwrap();
    recipe.check().unwrap_err().to_string()
}

#[test]
fn the_recipes_are_sound() {
    let recipes = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/recipes")).unwrap();
    let paths = recipes.map(|entry| entry.unwrap().path());
    // A README.md lies beside them.
    let paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        let recipe = Recipe::read(&path).unwrap();
        assert_eq!(path.file_stem().unwrap().to_str(), Some(recipe.name.as_str()));
    }
}

/// Who trains a released bundle again by its recipe gets one that learns and answers as that does.
#[test]
fn recipes_say_what_devices_do_by_the_released_bundles() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let bundles = std::fs::read_dir(workspace.join("models")).unwrap().map(|entry| entry.unwrap().path());
    let manifests: Vec<_> = bundles.map(|bundle| bundle.join(MANIFEST)).filter(|manifest| manifest.is_file()).collect();
    assert!(manifests.len() >= 6, "{manifests:?}");
    for manifest in manifests {
        let Manifest { name, learn, .. } = Manifest::parse(&std::fs::read_to_string(manifest).unwrap()).unwrap();
        let recipe = Recipe::read(&workspace.join(format!("trainer/recipes/{name}.toml"))).unwrap();
        assert_eq!(recipe.learn, learn, "{name}: the recipe's settings, then the bundle's");
    }
}

/// Names of a table's fields, as its reader lists them when it meets a stranger.
fn fields<T: serde::de::DeserializeOwned>() -> Vec<String> {
    let refused = toml::from_str::<T>("stranger = 1").err().unwrap().to_string();
    let listed = refused.split_once("expected").unwrap_or_else(|| panic!("{refused}")).1;
    listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_reference_names_every_field() {
    let page = include_str!("../../../docs/src/reference/recipes.md");
    let tables = [
        ("## Top level", fields::<Recipe>()),
        ("## `[data]`", fields::<DataConfig>()),
        ("## `[split]`", fields::<SplitConfig>()),
        ("## `[backbone]`", fields::<BackboneConfig>()),
        ("## `[head]`", fields::<HeadConfig>()),
        ("## `[pretrain]`", fields::<PretrainConfig>()),
        ("## `[pretrain.augment]`", fields::<AugmentConfig>()),
        ("## `[targets]`", fields::<TargetConfig>()),
        ("## `[align]`", fields::<BaseAlignConfig>()),
        ("## `[export]`", fields::<ExportConfig>()),
        ("## `[learn]`", [fields::<MethodConfig>(), fields::<AnswerWeights>(), vec!["preset".to_owned()]].concat()),
    ];
    for (heading, fields) in tables {
        assert!(fields.len() > 1, "{heading}: {fields:?}");
        let section = page.split_once(&format!("\n{heading}")).unwrap_or_else(|| panic!("{heading} is missing")).1;
        let section = section.split("\n## ").next().unwrap();
        for field in fields {
            assert!(section.contains(&format!("`{field}`")), "{heading} lacks {field}");
        }
    }
}

#[test]
fn settings_of_phase_2_that_are_left_out_are_not_written() {
    let recipe: Recipe = toml::from_str(include_str!("../../recipes/cifar100-small.toml")).unwrap();
    let written = serde_json::to_value(&recipe.align).unwrap();
    assert_eq!(written.as_object().unwrap().len(), 11, "{written}");
    let text = "cached_views = 6\nrate = \"cosine\"\nperturbation = \"gaussian\"\ntrain_backbone = true";
    let text = include_str!("../../recipes/cifar100-small.toml").replace("cached_views = 6", text);
    let recipe: Recipe = toml::from_str(&text).unwrap();
    recipe.check().unwrap();
    let again: Recipe = toml::from_str(&toml::to_string(&recipe).unwrap()).unwrap();
    assert_eq!(again, recipe);
}

#[test]
fn a_wrong_value_is_named() {
    assert_eq!(
        refused("count = 100", "count = 99"),
        "recipe: targets.count is 99, but must be at least the number of classes of the split, at most 4096"
    );
    assert!(
        refused("momentum = 0.9\nweight_decay", "momentum = nan\nweight_decay").contains("pretrain.momentum is NaN")
    );
    assert!(refused("self_contrast = 0.0", "self_contrast = 0.1").contains("pretrain.views is 1"));
    assert!(refused("crop_scale = [0.35, 1.0]", "crop_scale = [0.9, 0.5]").contains("crop_scale"));
    let policy = "crop_scale = [0.35, 1.0]\npolicy = { kind = \"randaugment\", operations = 2, magnitude = 31 }";
    assert!(refused("crop_scale = [0.35, 1.0]", policy).contains("policy.magnitude is 31"));
    assert!(refused("jitter = 0.4", "jitter = 0.4\nhue = 0.6").contains("recipe: pretrain.augment.hue is 0.6"));
    assert!(refused("views = 1", "views = 1\ntrust = 0.0").contains("pretrain.trust is 0"));
    let averaged = refused("views = 1", "views = 1\naverage_last = 1000");
    assert!(averaged.contains("pretrain.average_last is 1000, but must be at most pretrain.epochs"), "{averaged}");
    for (from, to, said) in [
        ("views = 1", "views = 1000000", "views is 1000000, but must be from 1 to 64"),
        ("temperature = 0.2", "temperature = 1e-30", "pretrain.temperature is 0.0000000000000000000000000000"),
        ("learning_rate = 0.4\nmomentum = 0.9", "learning_rate = 0.4\nmomentum = 5.0", "pretrain.momentum is 5"),
        ("weight_decay = 5e-4\nwarmup", "weight_decay = 1e30\nwarmup", "pretrain.weight_decay is 1000"),
        ("learning_rate = 0.4", "learning_rate = 101.0", "pretrain.learning_rate is 101"),
        ("warmup_epochs = 3", "warmup_epochs = 90", "pretrain.warmup_epochs is 90, but must be fewer than"),
        ("label_smoothing = 0.1", "label_smoothing = 1.0", "label_smoothing is 1, but must be at least 0 and below 1"),
        ("cached_views = 6", "cached_views = 1000", "align.cached_views is 1000, but must be from 2 to 64"),
        ("temperature = 0.07", "temperature = 1e-30", "align.temperature"),
        ("steps = 1000", "steps = 1\nlearning_rate = 1e-60", "targets.learning_rate is 0.0000000000000000000000000000"),
        (
            "method = \"optimised\"",
            "method = \"simplex\"\naccumulate = false",
            "targets.accumulate is false, but must be left out unless",
        ),
        ("steps = 1000", "steps = 9000000", "targets.steps is 9000000, but must be from 0 to 1000000"),
        ("exemplars_per_class = 5", "exemplars_per_class = 99999", "export.exemplars_per_class is 99999"),
        (
            "exemplars_per_class = 5",
            "exemplars_per_class = 5\nlicense = \" \"",
            "export.license is empty, but must be the name of a license, or left out",
        ),
    ] {
        assert!(refused(from, to).contains(said), "{said}: {}", refused(from, to));
    }
    assert!(refused("preset = \"combined\"", "epochs = 10001").contains("learn"));
    let weightless = refused("preset = \"combined\"", "answer = { targets = 0.0, means = 0.0, discriminant = 0.0 }");
    assert!(weightless.starts_with("recipe: learn.answer.targets, aligned, means and discriminant"), "{weightless}");
    let mut views: Recipe = toml::from_str(include_str!("../../recipes/cifar100-published.toml")).unwrap();
    views.session_augment.as_mut().unwrap().cutout = 2000;
    let said = views.check().unwrap_err().to_string();
    assert_eq!(said, "recipe: session_augment.cutout is 2000, but must be from 0 to 1024");
    assert!(refused("name = \"", "name = \"a\\u0007").contains("recipe: name is \"a\\u{7}"));
    assert!(
        refused("name = \"cifar100-edge\"", "name = \"\"").contains("recipe: name is \"\", but must be a text that")
    );
    let mut large: Recipe = toml::from_str(include_str!("../../recipes/cifar100-small.toml")).unwrap();
    large.seed = i64::MAX as u64 + 1;
    assert!(large.check().unwrap_err().to_string().starts_with("recipe: seed is 9223372036854775808, but"));
    assert!(refused("width = 16", "onnx = \"a.onnx\"\nweights = \"b\"").contains("backbone.weights"));
    let mean_alone = refused("width = 16", "onnx = \"a.onnx\"\nmean = [0.1, 0.2, 0.3]");
    assert!(mean_alone.contains("backbone.mean is given alone"), "{mean_alone}");
    let deviation_alone = refused("width = 16", "onnx = \"a.onnx\"\ndeviation = [0.1, 0.2, 0.3]");
    assert!(deviation_alone.contains("backbone.deviation is given alone"), "{deviation_alone}");
    let of_bytes =
        refused("width = 16", "onnx = \"a.onnx\"\nmean = [123.7, 116.3, 103.5]\ndeviation = [58.4, 57.1, 57.4]");
    assert!(of_bytes.contains("backbone.mean is 123.7, but must be three numbers from 0 to 1"), "{of_bytes}");
    let twice = refused("width = 16", "onnx = \"a.onnx\"\nmean = [0, 0, 0]\ndeviation = [1, 1, 255]");
    assert!(twice.contains("backbone.deviation is 255, but must be three numbers above 0"), "{twice}");
    assert!(refused("width = 16", "").contains("backbone.width is 0"));
    let stem = "architecture = \"resnet12\"\nstem = \"imagenet\"";
    assert!(refused("architecture = \"resnet18\"", stem).contains("backbone.stem is imagenet"));
    assert!(refused("epochs = 90", "epochs = 0").contains("pretrain.epochs is 0"));
    let half = refused("cached_views = 6", "cached_views = 6\nviews_precision = \"f16\"");
    assert!(half.contains("align.views_precision is f16, but must be \"f32\" or \"bf16\""), "{half}");
    assert!(refused("cached_views = 6", "cached_views = 6\nbackbone_learning_rate = 0.1").contains("train_backbone"));
    let text = include_str!("../../recipes/cifar100-small.toml").replace("\"combined\"", "\"best\"");
    let unknown = toml::from_str::<Recipe>(&text).unwrap_err().to_string();
    assert!(
        unknown.contains("no preset \"best\"; known are published, paper-text, edge, combined, closed-form"),
        "{unknown}"
    );
}

#[test]
fn lists_that_are_too_long_are_refused() {
    let tiny = include_str!("../../recipes/synthetic-tiny.toml");
    let said = |from: &str, to: &str| {
        assert!(tiny.contains(from), "{from}");
        Recipe::parse(&tiny.replace(from, to), Path::new("recipe.toml")).unwrap_err().to_string()
    };
    assert_eq!(
        said("crop_scale = [0.5, 1.0]", "crop_scale = [0.5, 1.0, 1.0]"),
        "recipe: pretrain.augment.crop_scale holds 3 values, but must hold 2"
    );
    let opaque = "image_size = 24\nmean = [0.5, 0.5, 0.5, 0.5]\ndeviation = [0.2, 0.2, 0.2, 0.2]";
    assert!(said("image_size = 24", opaque).contains(" holds 4 values, but must hold 3"));
}

#[test]
fn a_split_has_at_most_as_many_classes_as_there_can_be_targets() {
    let of_sessions = |sessions: usize| {
        let tiny = include_str!("../../recipes/synthetic-tiny.toml").replace("count = 64\n", "");
        let text = tiny.replace("sessions = 4", &format!("sessions = {sessions}"));
        Recipe::parse(&text, Path::new("recipe.toml")).map(|recipe| recipe.targets.count)
    };
    assert_eq!([4, 700, 813].map(|sessions| of_sessions(sessions).unwrap()), [250, 3730, 4096]);
    let said = of_sessions(814).unwrap_err().to_string();
    assert!(said.starts_with("recipe: split.sessions is 814, but must be so few"), "{said}");
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    let changed = |change: fn(&mut Recipe)| {
        let mut recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
        recipe.check().unwrap();
        change(&mut recipe);
        recipe.check().map_err(|error| error.to_string())
    };
    let small = changed(|recipe| {
        (recipe.backbone.architecture, recipe.data.image_size) = (Architecture::Resnet12, Some(8));
    });
    assert_eq!(
        small.unwrap_err(),
        "recipe: data.image_size is 8, but must be at least 16 for resnet12, which halves it four times"
    );
    assert!(changed(|recipe| recipe.backbone.architecture = Architecture::Resnet12).is_ok());
    let half = changed(|recipe| (recipe.align.train_backbone, recipe.pretrain.precision) = (true, Precision::F16));
    assert!(half.unwrap_err().contains("pretrain.precision is f16, but must be bf16 or f32 where align.train"));
    assert!(changed(|recipe| recipe.pretrain.precision = Precision::F16).is_ok());
    let mirrored = changed(|recipe| {
        recipe.backbone.onnx = Some("model.onnx".into());
        recipe.align.mirrored = true;
    });
    let expected = "recipe: align.mirrored is true, but must be false where backbone.onnx is set";
    assert_eq!(mirrored.unwrap_err(), expected);
    assert!(changed(|recipe| recipe.align.mirrored = true).is_ok());
    let dark = changed(|recipe| recipe.pretrain.augment.cutout = 24);
    let expected =
        "recipe: pretrain.augment.cutout is 24, but must be below data.image_size, so that some of the image is left";
    assert_eq!(dark.unwrap_err(), expected);
    assert!(changed(|recipe| recipe.pretrain.augment.cutout = 23).is_ok());
}

#[test]
fn a_model_takes_the_place_of_the_network_that_a_recipe_names() {
    let folder = tempfile::tempdir().unwrap();
    let (path, model) = (folder.path().join("recipe.toml"), std::path::Path::new("model.onnx"));
    let tiny = include_str!("../../recipes/synthetic-tiny.toml");
    let network = "[backbone]\narchitecture = \"resnet18\"\nwidth = 8\n";
    let written = |backbone: &str| std::fs::write(&path, tiny.replace(network, backbone)).unwrap();
    let sides = "mean = [0.5, 0.4, 0.3]\ndeviation = [0.2, 0.2, 0.2]\npool = \"mean\"\n";
    written(&format!("{network}{sides}"));
    let expected = BackboneConfig {
        onnx: Some(model.into()),
        pool: Some(Pooling::Mean),
        mean: Some([0.5, 0.4, 0.3]),
        deviation: Some([0.2; 3]),
        ..BackboneConfig::default()
    };
    assert_eq!(Recipe::read_on(&path, model).unwrap().backbone, expected);
    // What is no setting at all is refused, at its line in the file.
    written(&format!("{network}meen = [0.5, 0.4, 0.3]\n"));
    let refused = Recipe::read_on(&path, model).unwrap_err();
    let said = std::error::Error::source(&refused).unwrap().to_string();
    let line = tiny.lines().position(|line| line == "width = 8").unwrap() + 2;
    assert!(said.contains(&format!("line {line}, ")) && said.contains("unknown field `meen`"), "{said}");
}

#[test]
fn a_recipe_may_leave_its_network_to_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recipe.toml");
    let tiny = include_str!("../../recipes/synthetic-tiny.toml");
    let network = "[backbone]\narchitecture = \"resnet18\"\nwidth = 8\n";
    let sides = "mean = [0.5, 0.4, 0.3]\ndeviation = [0.2, 0.2, 0.2]\n";
    // The model takes the place of a network that is named beside what is said of the model.
    let beside = [sides, "pool = \"mean\"\n"].map(|own| format!("{network}{own}"));
    let alone = format!("[backbone]\n{sides}");
    let width = "from 1 to 1024 for backbone.architecture, which is resnet18 where none is named, unless backbone.onnx \
                 or --backbone names a model";
    for (backbone, expected) in [
        ("", width),
        (alone.as_str(), width),
        (beside[0].as_str(), "left out, deviation too, unless backbone.onnx or --backbone names a model"),
        (beside[1].as_str(), "left out, pool too, unless backbone.onnx or --backbone names a model"),
    ] {
        std::fs::write(&path, tiny.replace(network, backbone)).unwrap();
        let recipe = Recipe::read_on(&path, std::path::Path::new("model.onnx")).unwrap();
        // Session lists and statistics need the images alone.
        let of_images = Recipe::read_for_images(&path).unwrap();
        assert_eq!((of_images.data, of_images.split), (recipe.data, recipe.split));
        let refused = Recipe::read(&path).unwrap_err().to_string();
        assert!(refused.ends_with(expected), "{refused}");
    }
    std::fs::write(&path, tiny.replace("width = 8", "width = 5000")).unwrap();
    assert!(Recipe::read_for_images(&path).is_err());
    std::fs::write(&path, tiny).unwrap();
    assert_eq!(Recipe::read_for_images(&path).unwrap(), Recipe::read(&path).unwrap());
    // As Windows writes "ü", and where it writes UTF-16.
    for bytes in [&b"name = \"T\xfcr\"\n"[..], b"\xff\xfen\0"] {
        std::fs::write(&path, bytes).unwrap();
        let refused = Recipe::read(&path).unwrap_err();
        let reason = std::error::Error::source(&refused).unwrap().to_string();
        assert_eq!(reason, "it is no text in UTF-8: save it in that encoding");
    }
}

#[test]
fn a_seed_that_drew_the_test_images_is_told() {
    let mut recipe: Recipe = toml::from_str(include_str!("../../recipes/synthetic-tiny.toml")).unwrap();
    assert_eq!(recipe.measured_on(None), "synthetic objects test images");
    assert_eq!(recipe.measured_on(Some(3)), "synthetic objects test images, drawn with seed 3");
    recipe.split.measure_on = MeasureOn::Holdout;
    assert_eq!(recipe.measured_on(Some(3)), "held-out synthetic objects training images");
    assert_eq!(MeasureOn::Test.of(DataKind::Folders.title()), "own test images");
}

//! The program as people use it.

mod machine;
mod refusal;
mod stop;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// A folder in CIFAR-100's binary layout: noise around one colour per class. Kept between runs of the tests.
fn data() -> &'static Path {
    static DATA: OnceLock<PathBuf> = OnceLock::new();
    DATA.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cifar100-noise");
        fs::create_dir_all(&folder).unwrap();
        // Another process of these tests may be about to write the same.
        let lock = fs::File::create(folder.join("lock")).unwrap();
        lock.lock().unwrap();
        for (name, records) in [("train.bin", 50_000u32), ("test.bin", 10_000)] {
            let path = folder.join(name);
            if fs::metadata(&path).is_ok_and(|there| there.len() == u64::from(records) * 3074) {
                continue;
            }
            let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
            let mut noise = 1u32;
            for index in 0..records {
                let class = (index % 100) as u8;
                let mut record = vec![0, class];
                record.extend((0..3072u32).map(|position| {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (noise >> 26) as u8 + class + (position / 1024) as u8 * (class % 7) * 5
                }));
                file.write_all(&record).unwrap();
            }
        }
        let names: Vec<String> = (0..100).map(|class| format!("class{class}")).collect();
        fs::write(folder.join("fine_label_names.txt"), names.join("\n")).unwrap();
        folder
    })
}

/// A folder with a recipe of a very small network on 8 images of each class.
fn recipe(epochs: usize, views: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = include_str!("../../../recipes/cifar100-edge-holdout.toml");
    let mut recipe: toml::Table = text.parse().unwrap();
    let mut set = |table: &str, field: &str, value: toml::Value| {
        recipe[table].as_table_mut().unwrap().insert(field.into(), value);
    };
    set("split", "holdout_per_class", 492.into());
    set("backbone", "width", 2.into());
    set("head", "hidden", 128.into());
    set("targets", "steps", 40.into());
    set("align", "epochs", 1.into());
    set("align", "batch", 64.into());
    set("export", "candidates_per_class", 8.into());
    // Several steps an epoch, so that a stop falls within one.
    set("pretrain", "batch", 64.into());
    set("pretrain", "learning_rate", 0.1.into());
    set("pretrain", "epochs", (epochs as i64).into());
    set("pretrain", "views", (views as i64).into());
    set("pretrain", "warmup_epochs", i64::from(epochs > 1).into());
    set("pretrain", "precision", "f32".into());
    fs::write(folder.path().join("recipe.toml"), recipe.to_string()).unwrap();
    folder
}

/// The command line that pretrains the recipe of `folder` into its folder `run`.
fn arguments(folder: &Path, run: &str) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let (recipe, run) = (path(&folder.join("recipe.toml")), path(&folder.join(run)));
    let common = ["--run", &run, "--data", &path(data()), "--threads", "1", "--device", "cpu"].map(str::to_owned);
    ["pretrain".to_owned(), recipe].into_iter().chain(common).collect()
}

fn program(arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orco-train"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A recipe on rendered images that is read at once.
fn synthetic(folder: &Path) -> PathBuf {
    let text = include_str!("../../../recipes/synthetic-tiny.toml");
    let path = folder.join("synthetic.toml");
    fs::write(&path, text.replace("train_per_class = 90", "train_per_class = 25")).unwrap();
    path
}

fn words(words: &[&dyn AsRef<std::ffi::OsStr>]) -> Vec<String> {
    words.iter().map(|word| word.as_ref().to_str().unwrap().to_owned()).collect()
}

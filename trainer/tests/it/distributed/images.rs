//! Ranks read the images together.

use std::path::Path;

use orco_trainer::data::dataset::{self, DataOrigin, DataSet};
use orco_trainer::platform::device::DeviceChoice;
use orco_trainer::platform::distributed::RankGroup;
use tch::Tensor;

use super::{FOLDER, LIMIT, ended, free_port, picture_recipe, pictures, rank_of_test};
use crate::support::error_text;

fn open_pictures(folder: &Path, skip_broken: bool, group: &RankGroup) -> Result<DataSet, String> {
    let recipe = picture_recipe();
    let origin = DataOrigin { folder: Some(folder), skip_broken, group: group.clone(), ..DataOrigin::default() };
    dataset::open(&recipe, &origin).map_err(|error| error.to_string())
}

/// Not a test of its own: what the ranks of the next one do.
#[test]
fn a_rank_reads_pictures() {
    let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else { return };
    env_logger::builder().filter_level(log::LevelFilter::Debug).init();
    let group = RankGroup::from_environment(DeviceChoice::Cpu).unwrap();
    let refused = open_pictures(&folder.join("pictures"), false, &group).unwrap_err();
    eprintln!("refused: {refused}");
    let set = open_pictures(&folder.join("pictures"), true, &group).unwrap();
    assert_eq!(set.skipped.len(), 1);
    let held = [("train", &set.train.pixels), ("test", &set.test.pixels)];
    Tensor::write_safetensors(&held, folder.join(format!("{}.safetensors", group.rank()))).unwrap();
    // One memory: what a rank writes, the others see.
    let last = set.train.pixels.get(0).view(-1).get(0);
    group.barrier().unwrap();
    if !group.is_first() {
        let _ = last.shallow_clone().fill_(199);
    }
    group.barrier().unwrap();
    assert_eq!(last.int64_value(&[]), 199);
}

#[test]
fn each_rank_reads_its_share_of_the_images() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pictures(&folder.join("pictures"));
    let port = free_port();
    let ranks = [0, 1].map(|rank| rank_of_test("distributed::images::a_rank_reads_pictures", folder, rank, port));
    let expected = open_pictures(&folder.join("pictures"), true, &RankGroup::alone()).unwrap();
    for (rank, child) in ranks.into_iter().enumerate() {
        let output = ended(child, LIMIT);
        let said = error_text(&output);
        assert!(output.status.success(), "rank {rank}: {said}");
        assert!(said.contains(&format!("rank {rank} decodes 26 of 52 training images")), "{said}");
        assert!(said.contains(&format!("rank {rank} decodes 6 of 12 test images")), "{said}");
        // The picture is one of rank 0's; both say which one it is.
        assert!(said.contains("refused: the image ") && said.contains("class 1/04.png is neither a JPEG"), "{said}");
        // The first rank knows the other one's pictures.
        let is_told = said.contains("a test image: train/class 0/00.png and test/class 0/00.png, ");
        assert!(is_told == (rank == 0) && !said.contains("lies in two classes"), "{said}");
        let held = Tensor::read_safetensors(folder.join(format!("{rank}.safetensors"))).unwrap();
        for (name, pixels) in held {
            let expected = if name == "train" { &expected.train } else { &expected.test };
            assert!(pixels.equal(&expected.pixels), "rank {rank}: {name}");
        }
    }
}

//! Images with labels, and the few-shot class-incremental split over them.
//!
//! [`open`] reads whatever data set a recipe names. Each kind is a file of its own: [`cifar100`], `mini_imagenet`,
//! `cub200`, `folders` (a folder of class folders) and [`synthetic`]. A further one is a file beside these, an arm of
//! `read` below, and a [`DataKind`]. Kinds that consist of image files list them; `image_files` decodes them all.
//!
//! What the kinds share: `split` divides images into base classes and sessions, by the field's `session_lists` where
//! there are some, `channel_statistics` normalises, `room` checks the memory first. Of a user's own pictures,
//! `duplicate_pictures` finds those that are there twice.

mod channel_statistics;
pub mod cifar100;
mod cub200;
mod duplicate_pictures;
mod error;
mod folders;
mod image_files;
mod mini_imagenet;
mod room;
mod session_lists;
mod split;
pub mod synthetic;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod write_session_lists;

use std::path::Path;

pub use channel_statistics::ChannelStatistics;
pub use error::DataError;
use orco_state::escape::EscapedText;
use orco_state::label;
use orco_state::sentence::join_first;
pub use session_lists::{ListError, ListNames, SessionLists};
pub use split::{SessionSplit, Split, SplitError};
use tch::{Device, Kind, Tensor};
pub use write_session_lists::write_lists;

use crate::config::{DataKind, MAX_CLASSES, MeasureOn, Recipe};
use crate::platform::device::send;
use crate::platform::distributed::RankGroup;
use crate::platform::gpu;
use crate::platform::interrupt;
use duplicate_pictures::{PicturePart, duplicate_warnings};
use image_files::Listing;
use room::demand_room;

/// Where a data set is, how strict to be with it, and who reads it.
#[derive(Clone, Debug, Default)]
pub struct DataOrigin<'a> {
    /// The data set's folder; synthetic data need none.
    pub folder: Option<&'a Path>,
    /// Folder of the field's session lists; without it every draw of shots is a seeded one.
    pub lists: Option<&'a Path>,
    /// Leaves broken images out instead of stopping.
    pub skip_broken: bool,
    /// The ranks that read it together.
    pub group: RankGroup,
}

/// Everything that training takes from a data set.
#[derive(Debug)]
pub struct DataSet {
    /// Training images.
    pub train: Images,
    /// Test images.
    pub test: Images,
    /// Seed that drew the test images from all, where the data do not set them apart.
    pub test_seed: Option<u64>,
    /// Which image plays which part.
    pub split: Split,
    /// By label.
    pub class_names: Vec<String>,
    /// Normalises the images.
    pub channels: ChannelStatistics,
    /// How session lists name the training images.
    pub names: ListNames,
    /// Images that were left out as broken, a sentence each.
    pub skipped: Vec<String>,
}

/// Reads the data set of a recipe and splits it.
///
/// Channel statistics that are neither published nor in the recipe are computed from the base images that training may
/// see: held-out images and incremental classes have no say.
///
/// # Errors
/// [`DataError`] if a file is missing or not as its layout says, an image is broken, or the split does not fit.
pub fn open(recipe: &Recipe, origin: &DataOrigin<'_>) -> Result<DataSet, DataError> {
    let (set, warnings) = open_with_warnings(recipe, origin)?;
    warnings.iter().for_each(|warning| log::warn!("{warning}"));
    Ok(set)
}

/// As [`open`], with what is allowed, but seldom meant, a sentence each.
fn open_with_warnings(recipe: &Recipe, origin: &DataOrigin<'_>) -> Result<(DataSet, Vec<String>), DataError> {
    let UnsplitData { train, test, test_seed, class_names, names, skipped, own_pictures } = read(recipe, origin)?;
    let class_names = labels(&class_names, recipe.classes())?;
    let title = recipe.data.kind.title();
    let candidates = recipe.export.candidates_per_class;
    let lists = origin.lists.map(|folder| SessionLists { folder, names: &names });
    let split = Split::new(&recipe.split, candidates, &train, &test, lists, recipe.seed)
        .map_err(|error| error.with_class_names(&class_names).with_list_remedy(&names, test_seed))?;
    let channels = ChannelStatistics::of(recipe).unwrap_or_else(|| ChannelStatistics::measure(&train, &split.base));
    log::info!("{title}: {} training and {} test images of {} classes", train.len(), test.len(), class_names.len());
    let set = DataSet { train, test, test_seed, split, class_names, channels, names, skipped };
    let mut warnings = split_warnings(recipe, &set);
    // All ranks have the same pictures.
    if origin.group.is_first()
        && let Some(pictures) = &own_pictures
    {
        warnings.extend(pictures.duplicate_warnings(recipe, &set));
    }
    Ok((set, warnings))
}

/// Refuses data with fewer classes than the recipe's split.
fn demand_classes(recipe: &Recipe, actual: usize) -> Result<(), DataError> {
    let (title, expected) = (recipe.data.kind.title(), recipe.classes());
    if actual < expected { Err(DataError::Classes { title, expected, actual }) } else { Ok(()) }
}

/// Names of classes in a sentence, the first few of many.
fn listed(classes: &[usize], class_names: &[String]) -> String {
    /// Names in a sentence.
    const NAMED: usize = 5;
    join_first(classes.iter().map(|&class| EscapedText(&class_names[class])), NAMED, ", ")
}

impl DataSet {
    /// The images that accuracy is measured on, to which indices of [`Split::measured`] belong.
    pub fn measured(&self, measure_on: MeasureOn) -> &Images {
        match measure_on {
            MeasureOn::Test => &self.test,
            MeasureOn::Holdout => &self.train,
        }
    }

    /// Says which classes no number is of, if there are such.
    pub fn unmeasured_sentence(&self, measure_on: MeasureOn) -> Option<String> {
        let classes = self.split.unmeasured(self.measured(measure_on));
        let names = listed(&classes, &self.class_names);
        (!classes.is_empty()).then(|| format!("no test image shows {names}; every number is over the other classes"))
    }
}

/// What is allowed, but seldom meant: classes in no session, base classes with few images, none to set aside, classes
/// that nothing is measured of. A sentence each.
fn split_warnings(recipe: &Recipe, set: &DataSet) -> Vec<String> {
    /// Images from which a class can be learned, though not well.
    const FEW: usize = 10;
    let DataSet { train, split, class_names, .. } = set;
    let listed = |classes: &[usize]| listed(classes, class_names);
    let mut warnings = Vec::new();
    let unused: Vec<usize> = (recipe.classes()..class_names.len()).collect();
    if !unused.is_empty() {
        let (used, all) = (recipe.classes(), class_names.len());
        warnings.push(format!(
            "the split uses the first {used} of {all} classes; in no session: {}; [split] says how many are used",
            listed(&unused)
        ));
    }
    let mut images = vec![0; split.base_classes];
    split.base.iter().for_each(|&index| images[usize::from(train.labels[index])] += 1);
    let few: Vec<usize> = (0..images.len()).filter(|&class| images[class] < FEW).collect();
    if !few.is_empty() {
        warnings
            .push(format!("base classes with fewer than {FEW} images to train on: {}; give them more", listed(&few)));
    }
    if recipe.split.set_aside_per_class > 0 && split.unseen().is_empty() {
        warnings.push(
            "no base class has the 5 images of which one can be set aside, so a device chooses its border by images \
             that were trained on, which makes base classes look surer than they are; give them more images"
                .into(),
        );
    }
    warnings.extend(set.unmeasured_sentence(recipe.split.measure_on));
    warnings
}

/// What is read of a data set, before it is split; fields are those of [`DataSet`].
struct UnsplitData {
    train: Images,
    test: Images,
    test_seed: Option<u64>,
    class_names: Vec<String>,
    names: ListNames,
    skipped: Vec<String>,
    own_pictures: Option<OwnPictures>,
}

impl UnsplitData {
    /// Images that are no files: session lists number them.
    fn numbered(train: Images, test: Images, class_names: Vec<String>) -> Self {
        let (names, skipped) = (ListNames::Numbers, Vec::new());
        Self { train, test, test_seed: None, class_names, names, skipped, own_pictures: None }
    }
}

/// What is kept of own pictures to tell which are equal.
struct OwnPictures {
    /// `class/file` of the test images.
    test_names: Vec<String>,
    /// Of the training images.
    train_hashes: Vec<u64>,
    /// Of the test images.
    test_hashes: Vec<u64>,
}

impl OwnPictures {
    /// Says which pictures of a data set are there twice though they must not be, a sentence each.
    fn duplicate_warnings(&self, recipe: &Recipe, set: &DataSet) -> Vec<String> {
        let ListNames::Paths { names, .. } = &set.names else { return Vec::new() };
        // Files in both folders may have the same name.
        let folders = if set.test_seed.is_none() { ["train/", "test/"] } else { [""; 2] };
        let (train, test) = (&set.train.labels, &set.test.labels);
        let train = PicturePart { folder: folders[0], names, labels: train, hashes: &self.train_hashes };
        let test = PicturePart { folder: folders[1], names: &self.test_names, labels: test, hashes: &self.test_hashes };
        duplicate_warnings([train, test], &set.split, recipe.split.measure_on)
    }
}

fn read(recipe: &Recipe, origin: &DataOrigin<'_>) -> Result<UnsplitData, DataError> {
    let data = &recipe.data;
    let folder = || origin.folder.ok_or(DataError::NoFolder { title: data.kind.title() });
    let mut skipped = Vec::new();
    let listing = match data.kind {
        DataKind::Cifar100 => {
            let (train, test, class_names) = cifar100::open(folder()?, &origin.group)?;
            demand_classes(recipe, class_names.len())?;
            return Ok(UnsplitData::numbered(train, test, class_names));
        }
        DataKind::Synthetic => {
            let classes = data.classes.unwrap_or_else(|| recipe.classes());
            demand_classes(recipe, classes)?;
            let (each, tests) = (data.train_per_class.unwrap_or(100), data.test_per_class.unwrap_or(20));
            demand_room(classes.saturating_mul(each.saturating_add(tests)), data.canvas(), 2)?;
            let train = synthetic::images(classes, each, data.canvas(), synthetic::SyntheticPart::Train, recipe.seed);
            let test = synthetic::images(classes, tests, data.canvas(), synthetic::SyntheticPart::Test, recipe.seed);
            // Rendering stops at Ctrl-C.
            interrupt::check().map_err(DataError::Stopped)?;
            let class_names = synthetic::class_names(classes, recipe.seed);
            return Ok(UnsplitData::numbered(train, test, class_names));
        }
        DataKind::MiniImagenet => mini_imagenet::list(folder()?)?,
        DataKind::Cub200 => cub200::list(folder()?)?,
        DataKind::Folders => {
            let listing = folders::list(folder()?, data.test_share, recipe.seed, origin.skip_broken, &mut skipped)?;
            skipped.iter_mut().for_each(|path| path.push_str(" has a name that is not valid Unicode"));
            listing
        }
    };
    let Listing { train, test, test_seed, class_names, prefix } = listing;
    // Also before images are decoded, which takes time.
    let class_names = labels(&class_names, recipe.classes())?;
    if class_names.len() > MAX_CLASSES {
        let path = folder()?.into();
        let expected = format!("at most {MAX_CLASSES}");
        return Err(DataError::Count { path, what: "classes", expected, actual: class_names.len() });
    }
    demand_classes(recipe, class_names.len())?;
    demand_room(train.len() + test.len(), data.canvas(), 1)?;
    let train = image_files::decode(&train, data, origin.skip_broken, "training images", &origin.group)?;
    let test = image_files::decode(&test, data, origin.skip_broken, "test images", &origin.group)?;
    skipped.extend([train.skipped, test.skipped].concat());
    let names = ListNames::Paths { prefix, names: train.names };
    let own_pictures = (data.kind == DataKind::Folders).then_some(OwnPictures {
        test_names: test.names,
        train_hashes: train.hashes,
        test_hashes: test.hashes,
    });
    let (train, test) = (train.images, test.images);
    Ok(UnsplitData { train, test, test_seed, class_names, names, skipped, own_pictures })
}

/// Class names as a device keeps them, in their normal form. Refuses names that would break a list or a terminal, names
/// that are the same in their normal form, and, of the first `used`, which the split uses, names that no device could
/// learn.
fn labels(class_names: &[String], used: usize) -> Result<Vec<String>, DataError> {
    let labels: Vec<String> = class_names.iter().map(|name| label::normal(name)).collect();
    let usable =
        |index: usize| label::is_plain(&class_names[index]) && (index >= used || label::is_usable(&labels[index]));
    let unusable = (0..labels.len()).find(|&index| !usable(index));
    let repeated = || label::first_repeated(&labels.iter().map(String::as_str).collect::<Vec<_>>());
    match unusable.or_else(repeated) {
        Some(index) => Err(DataError::ClassName { name: class_names[index].clone() }),
        None => Ok(labels),
    }
}

/// Labelled images in memory.
#[derive(Debug)]
pub struct Images {
    /// u8 `[n, 3, height, width]`, red, green, blue planes.
    pub pixels: Tensor,
    /// Class of each image, `[n]`.
    pub labels: Vec<u16>,
}

/// Indices as a tensor, i64 `[k]`.
fn tensor(indices: &[usize]) -> Tensor {
    Tensor::from_slice(&indices.iter().map(|&index| index as i64).collect::<Vec<_>>())
}

impl Images {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// u8 `[k, 3, height, width]`: the images at `indices`, where the pixels are.
    pub fn select(&self, indices: &[usize]) -> Tensor {
        self.at(&tensor(indices))
    }

    /// The first images, `most` at most, of each the middle of that height and width; the same pixels in memory.
    pub fn middle(&self, most: usize, [height, width]: [i64; 2]) -> Self {
        let (count, size) = (most.min(self.len()), self.pixels.size());
        let (top, left) = ((size[2] - height) / 2, (size[3] - width) / 2);
        let pixels = self.pixels.narrow(0, 0, count as i64).narrow(2, top, height).narrow(3, left, width);
        Self { pixels, labels: self.labels[..count].to_vec() }
    }

    /// How many of them, `most` at most, go through a backbone together where nothing is trained: what lies between its
    /// layers grows with their pixels.
    pub fn forward_batch(&self, most: usize) -> usize {
        /// Of 32 images of 224 x 224, for which EfficientNet-Lite0 takes 0.5 GiB.
        const PIXELS: i64 = 32 * 224 * 224;
        let size = self.pixels.size();
        most.min((PIXELS / (size[2] * size[3]).max(1)).max(1) as usize)
    }

    /// f32 `[k, 3, height, width]` in 0..1 on `device`: the images at `indices`.
    pub fn batch(&self, indices: &[usize], device: Device) -> Tensor {
        self.batch_at(&tensor(indices), device)
    }

    /// As [`Images::batch`], for indices in a tensor, i64 `[k]`, on any device.
    pub fn batch_at(&self, indices: &Tensor, device: Device) -> Tensor {
        let mut chosen = self.at(indices);
        if device != chosen.device() && device.is_cuda() {
            // The GPU takes page-locked memory by itself, while the processor goes on.
            chosen = chosen.f_pin_memory(device).unwrap_or(chosen);
        }
        send(&chosen, device).to_kind(Kind::Float) / 255.0
    }

    fn at(&self, indices: &Tensor) -> Tensor {
        self.pixels.index_select(0, &send(indices, self.pixels.device()))
    }

    /// Moves the pixels to a device, so that no step has to: to the processor always, to a GPU if they take at most a
    /// quarter of its free memory (8 GiB where that is not known) and it has room for them.
    pub fn move_pixels_to(&mut self, device: Device) {
        let most = || gpu::used().and_then(|gpu| gpu.memory()).map_or(8 << 30, |(free, _)| free / 4);
        if self.pixels.device() == device || (device != Device::Cpu && self.pixels.numel() as u64 > most()) {
            return;
        }
        let moved = self.pixels.f_to_device_(device, Kind::Uint8, false, false);
        match moved {
            Ok(moved) => self.pixels = moved,
            Err(_) => log::warn!("the images do not fit onto the device; every step copies its own"),
        }
    }

    /// The labels at `indices`, `[k]`, as bundles number classes.
    pub fn classes(&self, indices: &[usize]) -> Vec<u32> {
        indices.iter().map(|&index| u32::from(self.labels[index])).collect()
    }

    /// i64 `[k]`: the labels at `indices`.
    pub fn select_labels(&self, indices: &[usize]) -> Tensor {
        let labels: Vec<i64> = indices.iter().map(|&i| i64::from(self.labels[i])).collect();
        Tensor::from_slice(&labels)
    }
}

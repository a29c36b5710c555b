//! The pictures of classes that are to be learned.

use std::ffi::c_char;

use orco_runtime::image;
use orco_runtime::image_rs::RgbImage;
use orco_runtime::learner::Shots;
use orco_runtime::state::label;

use crate::pointer::{borrow_mut, free_handle, read_bytes, read_path, read_text, write_handle};
use crate::status::{OrcoStatus, StatusError, guard};

/// Labelled pictures, collected for one session. One thread at a time may use them.
#[derive(Debug, Default)]
pub struct OrcoShots {
    classes: Vec<(String, Vec<RgbImage>)>,
}

impl OrcoShots {
    /// As the learner takes them.
    pub(crate) fn classes(&self) -> Vec<(&str, Shots<'_>)> {
        self.classes.iter().map(|(label, pictures)| (label.as_str(), Shots::Pictures(pictures))).collect()
    }

    fn add(&mut self, label: &str, picture: RgbImage) {
        match self.classes.iter_mut().find(|(known, _)| label::same(known, label)) {
            Some((_, pictures)) => pictures.push(picture),
            None => self.classes.push((label.to_owned(), vec![picture])),
        }
    }
}

/// A picture of a file.
pub(crate) fn from_file(path: &str) -> Result<RgbImage, StatusError> {
    image::open(path).map_err(|broken| StatusError::picture(path, &broken.reason))
}

/// A picture from the bytes of a file.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<RgbImage, StatusError> {
    image::decode(bytes).map_err(|reason| StatusError::picture("the picture", &reason))
}

/// A picture from rows of bytes.
///
/// # Safety
/// Unless `rows` is NULL, it points to `stride * (height - 1) + 3 * width` bytes.
pub(crate) unsafe fn from_rgb(
    rows: *const u8,
    width: u32,
    height: u32,
    stride: usize,
) -> Result<RgbImage, StatusError> {
    let row = 3 * width as usize;
    let length = (height as usize).checked_sub(1).and_then(|before| before.checked_mul(stride)?.checked_add(row));
    // Where no such picture can be, no rows are read, and it is refused.
    let length = length.filter(|_| width.max(height) <= image::MAX_SIDE).unwrap_or(0);
    // SAFETY: the caller's promise.
    let rows = unsafe { read_bytes(rows, length, "rows") }?;
    image::from_rows(width, height, stride, rows).map_err(|reason| StatusError::picture("the picture", &reason))
}

/// Makes an empty collection, to be freed with orco_shots_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_shots_new(shots: *mut *mut OrcoShots) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe { write_handle(shots, "shots", || Ok(OrcoShots::default())) })
}

/// Frees a collection; NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_shots_free(shots: *mut OrcoShots) {
    // SAFETY: the caller keeps what the header says of pointers.
    unsafe { free_handle(shots) };
}

/// Adds a JPEG, PNG or WebP file. Pictures with the same label belong to one class.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_shots_add_file(
    shots: *mut OrcoShots,
    label: *const c_char,
    path: *const c_char,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        borrow_mut(shots, "shots")?.add(read_text(label, "label")?, from_file(read_path(path, "path")?)?);
        Ok(())
    })
}

/// Adds the bytes of a JPEG, PNG or WebP file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_shots_add_bytes(
    shots: *mut OrcoShots,
    label: *const c_char,
    data: *const u8,
    length: usize,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        borrow_mut(shots, "shots")?.add(read_text(label, "label")?, from_bytes(read_bytes(data, length, "data")?)?);
        Ok(())
    })
}

/// Adds a copy of a picture in memory: rows of red, green and blue bytes, from the top. Each row starts `stride`
/// bytes after the one before, 3 * width or more; the last one may end with its last pixel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orco_shots_add_rgb(
    shots: *mut OrcoShots,
    label: *const c_char,
    rows: *const u8,
    width: u32,
    height: u32,
    stride: usize,
) -> OrcoStatus {
    // SAFETY: the caller keeps what the header says of pointers.
    guard(|| unsafe {
        borrow_mut(shots, "shots")?.add(read_text(label, "label")?, from_rgb(rows, width, height, stride)?);
        Ok(())
    })
}

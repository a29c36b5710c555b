//! Pictures and features as Python gives them.

use std::fmt::Arguments;
use std::iter;
use std::path::PathBuf;

use numpy::ndarray::{Array3, ArrayView2, Axis, Ix3};
use numpy::{
    IntoPyArray, PyArray3, PyArrayDescrMethods, PyReadonlyArray, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArray,
    PyUntypedArrayMethods, ndarray,
};
use orco_runtime::image::{self, ImageError};
use orco_runtime::image_rs::RgbImage;
use orco_runtime::learner::Shots;
use orco_runtime::state::escape::EscapedText;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use crate::ending::{detached, in_python};
use crate::error::PendingError;

/// One picture.
pub enum PyPicture {
    /// A JPEG, PNG or WebP file.
    File(PathBuf),
    /// What was in an array.
    Pixels(RgbImage),
}

/// The shots of a class.
pub enum PyShots {
    /// Files, which are opened one by one.
    Files(Vec<PathBuf>),
    /// Pictures in memory.
    Pictures(Vec<RgbImage>),
    /// Features, `[shots, views, features]`.
    Features(Array3<f32>),
}

/// A path, unless it is empty: as a folder, it would be the one that the program runs in.
pub fn not_empty(path: PathBuf, name: &str) -> PyResult<PathBuf> {
    if path.as_os_str().is_empty() { Err(PyValueError::new_err(format!("{name} is empty"))) } else { Ok(path) }
}

/// What something is, for a sentence about it.
pub fn describe(given: &Bound<'_, PyAny>) -> String {
    if let Ok(array) = given.cast::<PyUntypedArray>() {
        return format!("an array of {} with shape {:?}", array.dtype(), array.shape());
    }
    given.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string())
}

/// Whether `given` is an image of Pillow.
fn is_of_pillow(given: &Bound<'_, PyAny>) -> bool {
    given.get_type().module().is_ok_and(|module| module.to_string_lossy().starts_with("PIL."))
}

/// A TypeError that says what was wanted, where Python raised one because `given` is of the wrong type. The error is
/// its cause: the caller's code, such as `__iter__`, may have raised it. Any other error comes from there, and stays.
pub fn reworded(error: PyErr, wanted: &str, given: &Bound<'_, PyAny>) -> PyErr {
    if !error.is_instance_of::<PyTypeError>(given.py()) {
        return error;
    }
    let reworded = PyTypeError::new_err(format!("{wanted}, not {}", describe(given)));
    reworded.set_cause(given.py(), Some(error));
    reworded
}

/// An array of float32 with that number of axes; `None` for anything else.
pub fn float_array<'py, D: ndarray::Dimension>(given: &Bound<'py, PyAny>) -> Option<PyReadonlyArray<'py, f32, D>> {
    let array: PyReadonlyArray<'py, f32, D> = given.extract().ok()?;
    // The view assumes strides of whole values. A field of a record array may have others; a copy has not.
    if array.is_aligned() { Some(array) } else { given.call_method0("copy").ok()?.extract().ok() }
}

/// Pixels whose rows follow one another. Where they lie otherwise, as in `frame[:, :, ::-1]`, NumPy copies them: faster
/// than value by value, and other threads of Python go on meanwhile.
fn contiguous<'py>(array: PyReadonlyArray3<'py, u8>) -> PyResult<PyReadonlyArray3<'py, u8>> {
    if array.is_c_contiguous() {
        return Ok(array);
    }
    let numpy = array.py().import("numpy")?;
    numpy.call_method1("ascontiguousarray", (&*array,))?.extract()
}

impl PyPicture {
    /// A picture as Python gives it. Its name begins the sentence of an error.
    fn of(given: &Bound<'_, PyAny>, name: Arguments<'_>) -> PyResult<Self> {
        if let Ok(pixels) = given.extract::<PyReadonlyArray3<'_, u8>>() {
            let (height, width, planes) = pixels.as_array().dim();
            if planes != 3 {
                let shape = pixels.shape();
                return Err(PyValueError::new_err(format!(
                    "{name}: a picture is an array [height, width, 3] of red, green and blue, not one with shape \
                     {shape:?}"
                )));
            }
            if height == 0 || width == 0 {
                return Err(PendingError::Picture(format!("{name} has no pixels")).into());
            }
            let [width, height] = [width, height].map(|side| u32::try_from(side).unwrap_or(u32::MAX));
            let refused = |reason: ImageError| PendingError::picture(name, &reason);
            // Before rows that lie apart are copied: an array of little memory may say that it is of any size.
            image::check_size(width, height).map_err(refused)?;
            let pixels = contiguous(pixels)?;
            let rows = pixels.as_array();
            let rows = rows.as_slice().expect("rows that follow one another");
            let picture = image::from_rows(width, height, 3 * width as usize, rows);
            return Ok(Self::Pixels(picture.map_err(refused)?));
        }
        let path = given.extract::<PathBuf>().map_err(|error| {
            let such_as = if is_of_pillow(given) {
                ", such as np.asarray(image.convert(\"RGB\")) gives"
            } else if given.extract::<PyReadonlyArray2<'_, u8>>().is_ok() {
                ", such as np.stack([grey] * 3, axis=-1) gives"
            } else {
                ""
            };
            let wanted = format!("{name}: a picture is a path or an array of uint8 [height, width, 3]{such_as}");
            reworded(error, &wanted, given)
        })?;
        Ok(Self::File(not_empty(path, &format!("{name}: the path"))?))
    }

    /// Opens it.
    pub fn open(self) -> Result<RgbImage, PendingError> {
        match self {
            Self::File(path) => image::open(path).map_err(|broken| PendingError::Picture(broken.to_string())),
            Self::Pixels(picture) => Ok(picture),
        }
    }
}

/// Iterates over pictures in anything that Python can iterate over. Where they are a class's, errors name it.
pub fn pictures<'py>(
    given: &Bound<'py, PyAny>,
    label: Option<&str>,
) -> PyResult<impl Iterator<Item = PyResult<PyPicture>> + use<'py>> {
    let of_class = label.map(|label| format!(" of {}", EscapedText(label))).unwrap_or_default();
    // As an iterable, each letter of a path and each row of a picture would be a picture.
    let is_picture = given.cast::<PyUntypedArray>().is_ok_and(|array| array.ndim() == 3);
    let single = is_picture || given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>();
    let items = if single { Err(PyTypeError::new_err("a single picture")) } else { given.try_iter() };
    let mut items = items.map_err(|error| {
        let wanted = format!("expected pictures{of_class}, such as a list of them");
        reworded(error, &wanted, given)
    })?;
    let (py, mut number) = (given.py(), 0_usize);
    Ok(iter::from_fn(move || {
        number += 1;
        in_python(py, || {
            let item = items.next()?;
            Some(item.and_then(|item| PyPicture::of(&item, format_args!("picture {number}{of_class}"))))
        })
    }))
}

impl PyShots {
    /// Shots of a class as Python gives them, on a bundle with so many views of a picture and features of a view.
    pub fn of(given: &Bound<'_, PyAny>, label: &str, [views, features]: [usize; 2]) -> PyResult<Self> {
        if let Some(array) = float_array::<Ix3>(given) {
            let array = array.as_array();
            if array.len_of(Axis(1)) != views || array.len_of(Axis(2)) != features {
                return Err(PyValueError::new_err(format!(
                    "features of shots of {} are [shots, {views}, {features}] with this bundle, not {:?}",
                    EscapedText(label),
                    array.shape()
                )));
            }
            finite(array.iter())?;
            return Ok(Self::Features(array.to_owned()));
        }
        // Taken for pictures, it would be one of its rows that cannot be used.
        if given.cast::<PyUntypedArray>().is_ok_and(|array| array.dtype().kind() == b'f') {
            return Err(PyTypeError::new_err(format!(
                "shots of {} are pictures of uint8, or features of float32 [shots, {views}, {features}] with this \
                 bundle, not {}",
                EscapedText(label),
                describe(given)
            )));
        }
        let pictures: Vec<PyPicture> = pictures(given, Some(label))?.collect::<PyResult<_>>()?;
        if pictures.iter().all(|picture| matches!(picture, PyPicture::File(_))) {
            let path = |picture| if let PyPicture::File(path) = picture { Some(path) } else { None };
            return Ok(Self::Files(pictures.into_iter().filter_map(path).collect()));
        }
        let opened = detached(given.py(), || pictures.into_iter().map(PyPicture::open).collect::<Result<_, _>>())?;
        Ok(Self::Pictures(opened))
    }

    /// As the learner takes them.
    pub fn shots(&self) -> Shots<'_> {
        match self {
            Self::Files(paths) => Shots::Files(paths.clone()),
            Self::Pictures(pictures) => Shots::Pictures(pictures),
            Self::Features(features) => Shots::Features(features.view()),
        }
    }
}

/// Refuses features that no backbone gives.
pub fn finite<'a>(mut features: impl Iterator<Item = &'a f32>) -> PyResult<()> {
    let finite = features.all(|value| value.is_finite());
    if finite { Ok(()) } else { Err(PyValueError::new_err("features are to be finite")) }
}

/// Refuses features, `[pictures, features]`, that no backbone gives, or whose squares cannot be summed.
pub fn finite_rows(features: ArrayView2<'_, f32>) -> PyResult<()> {
    finite(features.iter())?;
    let squares = features.rows().into_iter().map(|row| row.iter().map(|value| value * value).sum::<f32>());
    if squares.into_iter().all(|sum| sum.is_finite()) {
        return Ok(());
    }
    Err(PyValueError::new_err("features are too large: a picture's sum of squares overflows float32"))
}

/// Reads a JPEG, PNG or WebP file as the learner does: upright, on white where it is transparent.
#[pyfunction]
pub fn read_picture(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyArray3<u8>>> {
    let path = not_empty(path, "path")?;
    let picture = detached(py, || PyPicture::File(path).open())?;
    let shape = (picture.height() as usize, picture.width() as usize, 3);
    let pixels = Array3::from_shape_vec(shape, picture.into_raw()).expect("three bytes a pixel");
    Ok(pixels.into_pyarray(py))
}

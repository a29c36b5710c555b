//! Pointers that come in from C, which must not be NULL and, for a text, must be UTF-8, and values that go out.

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{OrcoStatus, StatusError};

/// The error of an argument that must not be NULL.
pub fn null(name: &str) -> StatusError {
    StatusError::new(OrcoStatus::BadArgument, format!("{name} is NULL"))
}

/// What a pointer points to.
///
/// # Safety
/// Unless it is NULL, it points to a value that lives, and that nobody else writes, as long as the reference is used.
pub unsafe fn borrow<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, StatusError> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// What a pointer points to, to be changed.
///
/// # Safety
/// As for [`borrow`], and nobody else reads it meanwhile.
pub unsafe fn borrow_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, StatusError> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// A text that ends with NUL.
///
/// # Safety
/// Unless it is NULL, it points to such a text, which nobody writes as long as the reference is used.
pub unsafe fn read_text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, StatusError> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| StatusError::new(OrcoStatus::BadArgument, format!("{name} is not UTF-8")))
}

/// The path of a file or a folder. An empty one is refused: as a folder, it would be the one that the program runs in.
///
/// # Safety
/// As for [`read_text`].
pub unsafe fn read_path<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, StatusError> {
    // SAFETY: the caller's promise.
    match unsafe { read_text(pointer, name) }? {
        "" => Err(StatusError::new(OrcoStatus::BadArgument, format!("{name} is empty"))),
        path => Ok(path),
    }
}

/// A text that may be left out.
///
/// # Safety
/// As for [`read_text`].
pub unsafe fn read_optional_text<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>, StatusError> {
    // SAFETY: the caller's promise.
    if pointer.is_null() { Ok(None) } else { unsafe { read_text(pointer, name) }.map(Some) }
}

/// `count` bytes.
///
/// # Safety
/// Unless it is NULL, it points to `count` bytes, which nobody writes as long as the reference is used.
pub unsafe fn read_bytes<'a>(pointer: *const u8, count: usize, name: &str) -> Result<&'a [u8], StatusError> {
    if pointer.is_null() {
        return Err(null(name));
    }
    if isize::try_from(count).is_err() {
        return Err(StatusError::new(OrcoStatus::BadArgument, format!("{name} has more bytes than there can be")));
    }
    // SAFETY: not NULL, and no longer than a slice may be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Writes a new value's pointer to `place`, for the caller to free with [`free_handle`]; NULL if there is an error.
///
/// # Safety
/// Unless it is NULL, `place` can be written.
pub unsafe fn write_handle<T>(
    place: *mut *mut T,
    name: &str,
    value: impl FnOnce() -> Result<T, StatusError>,
) -> Result<(), StatusError> {
    // SAFETY: the caller's promise. What lies there need not be a pointer yet, so it is written and never read.
    unsafe {
        if place.is_null() {
            return Err(null(name));
        }
        // A caller that frees whatever it got, after a failure too, frees nothing.
        place.write(std::ptr::null_mut());
        place.write(Box::into_raw(Box::new(value()?)));
    }
    Ok(())
}

/// Frees what [`write_handle`] made; nothing if it is NULL. The last error's text stays.
///
/// # Safety
/// It comes from [`write_handle`] and is not used again.
pub unsafe fn free_handle<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        let value = unsafe { Box::from_raw(pointer) };
        // C could not pass a panic on; the panic hook has said what it was.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
    }
}

/// Writes a value to `place`; nothing is done if that is NULL.
///
/// # Safety
/// Unless it is NULL, `place` can be written.
pub unsafe fn write_optional<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// Writes a new text of lines to `place`, for the caller to free with orco_text_free(), NULL if there is no line;
/// nothing is done if `place` is NULL.
///
/// # Safety
/// Unless it is NULL, `place` can be written, and what lies there need not be freed, or is what this call with no lines
/// put there.
pub unsafe fn write_lines(place: *mut *mut c_char, lines: &[String]) {
    if !place.is_null() {
        let text = if lines.is_empty() { std::ptr::null_mut() } else { c_string(&lines.join("\n")).into_raw() };
        // SAFETY: the caller's promise.
        unsafe { place.write(text) };
    }
}

/// A text for C. No label and no sentence has a NUL in it; U+FFFD would take its place.
pub fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).expect("without NUL")
}

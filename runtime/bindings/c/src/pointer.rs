//! What is asked of every pointer that comes in: not NULL, and UTF-8 where it is a text.

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Failure, OrcoStatus};

fn null(name: &str) -> Failure {
    Failure::new(OrcoStatus::BadArgument, format!("{name} is NULL"))
}

/// What a pointer points to.
///
/// # Safety
/// Unless it is NULL, it points to a value that lives, and that nobody else writes, as long as the reference is used.
pub unsafe fn borrowed<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// The same, to be changed.
///
/// # Safety
/// As for [`borrowed`], and nobody else reads it meanwhile.
pub unsafe fn borrowed_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// A text that ends with NUL.
///
/// # Safety
/// Unless it is NULL, it points to such a text, which nobody writes as long as the reference is used.
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::new(OrcoStatus::BadArgument, format!("{name} is not UTF-8")))
}

/// So many bytes.
///
/// # Safety
/// Unless it is NULL, it points to so many bytes, which nobody writes as long as the reference is used.
pub unsafe fn bytes<'a>(pointer: *const u8, count: usize, name: &str) -> Result<&'a [u8], Failure> {
    if pointer.is_null() {
        return Err(null(name));
    }
    if isize::try_from(count).is_err() {
        return Err(Failure::new(OrcoStatus::BadArgument, format!("{name} has more bytes than there can be")));
    }
    // SAFETY: not NULL, and no longer than a slice may be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// Hands a value over, to be freed by the caller.
///
/// # Safety
/// Unless it is NULL, `place` can be written.
pub unsafe fn hand_over<T>(
    place: *mut *mut T,
    name: &str,
    value: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
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

/// Takes back what was handed over, and drops it; nothing if it is NULL. The last error's text stays.
///
/// # Safety
/// It comes from [`hand_over`] and is not used again.
pub unsafe fn taken_back<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        let value = unsafe { Box::from_raw(pointer) };
        // C could not pass a panic on; the panic hook has said what it was.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
    }
}

/// Hands lines of text over, to be freed by the caller; nothing is done if `place` is NULL.
///
/// # Safety
/// Unless it is NULL, `place` can be written, and what lies there need not be freed, or is what this call with no lines
/// put there.
pub unsafe fn lines(place: *mut *mut c_char, lines: &[String]) {
    if !place.is_null() {
        let text = if lines.is_empty() { std::ptr::null_mut() } else { c_text(&lines.join("\n")).into_raw() };
        // SAFETY: the caller's promise.
        unsafe { place.write(text) };
    }
}

/// A text for C. One with a NUL in it, which no label and no sentence has, gets a mark in its place.
pub fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).expect("without NUL")
}

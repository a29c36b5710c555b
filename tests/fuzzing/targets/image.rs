//! Fuzz target: pictures.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    orco_fuzz::image(bytes);
});

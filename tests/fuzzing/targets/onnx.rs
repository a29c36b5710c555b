//! Fuzz target: ONNX models.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    orco_fuzz::onnx(bytes);
});

//! Fuzz target: bodies of files and patches, their envelopes made right.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    orco_fuzz::repaired(bytes);
});

//! Fuzz target: packs, their contents and their signatures.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    orco_fuzz::pack(bytes);
});

//! Fuzz target: manifests of bundles.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    orco_fuzz::manifest(bytes);
});

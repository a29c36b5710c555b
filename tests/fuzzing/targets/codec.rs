//! Fuzz target: files as they are: slots, learner and benchmark files.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    orco_fuzz::codec(bytes);
});

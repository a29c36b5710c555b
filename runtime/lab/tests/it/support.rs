//! Changes of copied bundles, which the tests of `orco` make, too.

use std::fs;
use std::path::Path;

use orco_benchmark::benchmark::Benchmark;
use orco_runtime::bundle::Bundle;
use orco_runtime::manifest::{BENCHMARK, hexadecimal};
use orco_state::codec::{self, FileKind};

/// Puts another file into a copy of a bundle, and its digest into the manifest.
pub fn replace(bundle: &Path, name: &str, bytes: &[u8]) {
    let digest = |bytes: &[u8]| hexadecimal(&codec::digest(bytes));
    let (path, manifest) = (bundle.join(name), bundle.join("manifest.toml"));
    let (before, text) = (digest(&fs::read(&path).unwrap()), fs::read_to_string(&manifest).unwrap());
    assert!(text.contains(&before), "{text}");
    fs::write(&path, bytes).unwrap();
    fs::write(&manifest, text.replace(&before, &digest(bytes))).unwrap();
}

/// Leaves two sessions in the benchmark of a copied bundle, and few pictures to measure on: where numbers are compared
/// with each other, they say enough.
pub fn shorten(bundle: &Path) {
    let opened = Bundle::open(bundle).unwrap();
    let mut benchmark = Benchmark::of(&opened).unwrap();
    benchmark.ways.truncate(2);
    let new = benchmark.ways.iter().sum::<u32>() as usize;
    benchmark.labels.truncate(new);
    let classes = (opened.base_model.classes.len() + new) as u32;
    let known = |of: &[u32], step: usize| -> Vec<usize> {
        (0..of.len()).filter(|&index| of[index] < classes).step_by(step).collect()
    };
    let measured = known(benchmark.measured.classes(), 10);
    let candidates = known(benchmark.candidates.classes(), 1);
    let sources = |of: &[u32], kept: &[usize]| kept.iter().map(|&index| of[index]).collect::<Vec<u32>>();
    benchmark.measured_sources = sources(&benchmark.measured_sources, &measured);
    benchmark.candidate_sources = sources(&benchmark.candidate_sources, &candidates);
    benchmark.measured = benchmark.measured.only(&measured);
    benchmark.candidates = benchmark.candidates.only(&candidates);
    replace(bundle, BENCHMARK, &codec::encode(FileKind::Benchmark, &benchmark));
}

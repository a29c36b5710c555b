//! Small parts of a state that take far more in memory than in a file.

use orco_runtime::bundle::Bundle;
use orco_runtime::state::history::SavedState;
use orco_runtime::state::slots::{self, SlotFrame};
use orco_trials::memory::peak_of;

/// A slot of a fresh state whose history promises so many entries, and has them.
fn slot(bundle: &Bundle, entries: u32) -> Vec<u8> {
    let saved = SavedState::fresh(&bundle.base_model, bundle.digest);
    let encoded = |value: &SavedState| postcard::to_allocvec(&value.history.entries()[0]).unwrap();
    let mut body = postcard::to_allocvec(&saved.state).unwrap();
    body.extend(postcard::to_allocvec(&entries).unwrap());
    body.extend(encoded(&saved).repeat(entries as usize));
    SlotFrame { version: slots::VERSION, generation: 1, bundle_digest: bundle.digest, body: &body }.encode()
}

#[test]
fn a_state_of_many_small_entries_does_not_fill_the_memory() {
    let bundle = Bundle::open("../models/cifar100-edge").unwrap();
    let crafted = slot(&bundle, 2_000_000);
    let (read, peak) = peak_of(|| slots::read(&crafted));
    assert!(read.is_none_or(|saved| saved.history.entries().len() <= 1 << 15));
    assert!(peak < 32 << 20, "{peak} bytes for a slot of {} bytes", crafted.len());
}

//! What runs took, as a table.

use std::fmt;

use orco_micro::exchange::{Outcome, Part};

/// A table of runs and their parts.
#[derive(Default)]
pub struct Table {
    runs: Vec<(&'static str, Outcome)>,
}

impl Table {
    /// No run yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a run.
    pub fn add(&mut self, name: &'static str, outcome: &Outcome) {
        self.runs.push((name, outcome.clone()));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, outcome) in &self.runs {
            let Outcome { ram, changes, written, erased, parts, .. } = outcome;
            writeln!(f, "\n{name}")?;
            for Part { name, instructions, heap } in parts {
                let millions = *instructions as f64 / 1e6;
                writeln!(f, "  {name:18} {millions:10.2} million instructions, heap {:7.1} KiB at most", kib(*heap))?;
            }
            let [statics, heap, stack] = [ram.statics, ram.heap, ram.stack].map(kib);
            let sum = kib(ram.statics + ram.heap + ram.stack);
            writeln!(f, "  RAM {sum:.1} KiB: heap with its gaps {heap:.1}, stack {stack:.1}, static {statics:.1}")?;
            writeln!(f, "  flash: {written} bytes written, {erased} pages erased, {changes} changes")?;
        }
        Ok(())
    }
}

fn kib(bytes: usize) -> f64 {
    bytes as f64 / 1024.0
}

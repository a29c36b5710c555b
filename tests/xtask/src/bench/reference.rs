//! The kernel that benchmarks are compared with: plain arithmetic of one thread, which no change of ours makes faster.

use std::hint::black_box;
use std::time::Instant;

use orco_trials::benchmark::milliseconds;
use orco_trials::median;

/// Rows and columns of the matrices; the three take 768 KB.
const SIDE: usize = 256;
/// Products in one timing.
const PRODUCTS: usize = 32;
/// Timings, of which the median counts; together they take about a second.
const TIMES: usize = 15;

/// One measurement of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Milliseconds that it takes, the median.
    pub milliseconds: f64,
    /// How many processors were busy meanwhile, beside the one that ran it; 0 where the system does not tell.
    pub busy_beside: f64,
}

impl Reading {
    /// Measures, for about a second.
    pub fn take() -> Self {
        let [a, b] = [3, 5].map(|step| (0..SIDE * SIDE).map(|at| (at * step % 17) as f32 / 8.0 - 1.0).collect());
        let (a, b): (Vec<f32>, Vec<f32>) = (a, b);
        let mut c = vec![0.0; SIDE * SIDE];
        let (start, busy_before) = (Instant::now(), busy_seconds());
        let mut products = || (0..PRODUCTS).for_each(|_| multiply(black_box(&a), black_box(&b), black_box(&mut c)));
        let times = (0..TIMES).map(|_| milliseconds(&mut products));
        let milliseconds = median(times.collect());
        let busy = busy_before.zip(busy_seconds()).map_or(0.0, |(before, after)| after - before);
        Self { milliseconds, busy_beside: (busy / start.elapsed().as_secs_f64() - 1.0).max(0.0) }
    }
}

/// Writes the product of `a` and `b` to `c`, all of them square and row-major.
#[inline(never)]
fn multiply(a: &[f32], b: &[f32], c: &mut [f32]) {
    for (a, c) in a.chunks_exact(SIDE).zip(c.chunks_exact_mut(SIDE)) {
        c.fill(0.0);
        for (a, b) in a.iter().zip(b.chunks_exact(SIDE)) {
            c.iter_mut().zip(b).for_each(|(c, b)| *c += a * b);
        }
    }
}

/// Seconds that all processors were busy since the machine started, with those that its host took. The kernel counts
/// in hundredths.
fn busy_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<f64> =
        text.lines().next()?.split_whitespace().skip(1).filter_map(|tick| tick.parse().ok()).collect();
    // user, nice, system, irq, softirq, steal; between them are idle and iowait.
    [0, 1, 2, 5, 6, 7].iter().map(|&place| ticks.get(place)).sum::<Option<f64>>().map(|ticks| ticks / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_multiplies() {
        let identity: Vec<f32> = (0..SIDE * SIDE).map(|at| if at % (SIDE + 1) == 0 { 2.0 } else { 0.0 }).collect();
        let b: Vec<f32> = (0..SIDE * SIDE).map(|at| at as f32).collect();
        let mut c = vec![1.0; SIDE * SIDE];
        multiply(&identity, &b, &mut c);
        assert!(c.iter().zip(&b).all(|(c, b)| *c == 2.0 * b));
    }
}

//! Learning rate over time: linear warm-up, then cosine.

/// A schedule over `steps` steps (epochs, in phases 2 and 3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// Steps in all.
    pub steps: usize,
    /// Steps of linear rise from `start` to `peak`; the last of them is at `peak`.
    pub warmup: usize,
    /// Rate of the first step, if there is a warm-up.
    pub start: f64,
    /// Highest rate.
    pub peak: f64,
    /// Rate that the cosine falls towards; it would be reached at step `steps`.
    pub end: f64,
}

impl Schedule {
    /// The rate of step `step`, counted from 0.
    ///
    /// ```
    /// use orco_core::schedule::Schedule;
    /// let schedule = Schedule { steps: 100, warmup: 10, start: 3e-5, peak: 0.1, end: 0.0 };
    /// assert_eq!(schedule.rate(0), 3e-5);
    /// assert_eq!(schedule.rate(9), 0.1);
    /// assert_eq!(schedule.rate(10), 0.1);
    /// ```
    pub fn rate(&self, step: usize) -> f64 {
        if step < self.warmup {
            let rise = (self.warmup - 1).max(1) as f64;
            let share = if self.warmup == 1 { 1.0 } else { step as f64 / rise };
            return self.start + (self.peak - self.start) * share;
        }
        let length = self.steps.saturating_sub(self.warmup).max(1) as f64;
        let share = ((step - self.warmup) as f64 / length).min(1.0);
        self.end + (self.peak - self.end) * 0.5 * (1.0 + libm::cos(core::f64::consts::PI * share))
    }
}

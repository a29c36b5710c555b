//! Mean, deviation and median of a few numbers.

use std::fmt;

/// A mean with its deviation. Printed, in percent: "57.11 ± 0.42", or the mean alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The sample deviation; none of a single number, which says nothing of deviations.
    pub deviation: Option<f64>,
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mean, deviation) = (two_decimals(self.mean), self.deviation);
        match deviation {
            Some(deviation) => f.pad(&format!("{mean} ± {deviation:.2}")),
            None => f.pad(&mean),
        }
    }
}

/// A number with two decimals; one that rounds to 0 has no sign.
pub fn two_decimals(value: f64) -> String {
    decimal(value, 2)
}

/// A number with so many digits behind the point; one that rounds to 0 has no sign.
pub fn decimal(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(zero) if zero.chars().all(|letter| matches!(letter, '0' | '.')) => zero.to_owned(),
        _ => text,
    }
}

/// The mean of numbers; NaN of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The mean of numbers; `None` of none.
pub fn mean_of_any(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect();
    (!values.is_empty()).then(|| mean(&values))
}

/// Sample standard deviation, divided by n - 1; 0 of a single number, which says nothing of deviations.
pub fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    if values.len() > 1 { (squares / (values.len() - 1) as f64).sqrt() } else { 0.0 }
}

/// The middle one of numbers, or the higher of two in the middle; `None` of none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounds_to_nothing_has_no_sign() {
        let shown = |mean, deviation| Spread { mean, deviation }.to_string();
        assert_eq!([shown(-1.4e-14, None), shown(-0.0, Some(0.0))], ["0.00", "0.00 ± 0.00"]);
        assert_eq!(
            [shown(-0.004, None), shown(-0.006, None), shown(-10.0, Some(1.0))],
            ["0.00", "-0.01", "-10.00 ± 1.00"]
        );
    }
}

//! Mean and deviation of a few numbers.

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sample deviation; of a single number nothing can be said and it is 0.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    if values.len() > 1 { (squares / (values.len() - 1) as f64).sqrt() } else { 0.0 }
}

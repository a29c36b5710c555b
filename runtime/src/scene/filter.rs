//! Filters on planes of numbers.

use super::small_frame::brightness;

/// The mean over the square of `2 * radius + 1` pixels a side around each pixel, as far as it lies in the plane.
///
/// # Shapes
/// `plane` `[height, width]`, row-major, `width` at least 1; returns the same.
pub(super) fn box_mean(plane: &[f32], width: usize, radius: usize) -> Vec<f32> {
    let height = plane.len() / width;
    let mut across = Vec::with_capacity(plane.len());
    for row in plane.chunks_exact(width) {
        running_mean(row, radius, &mut across);
    }
    // All columns at once: walking down each would read a cache line for every value.
    let row = |y: usize| &across[y * width..][..width];
    let mut sums = vec![0.0f64; width];
    let mut count = height.min(radius + 1);
    for y in 0..count {
        sums.iter_mut().zip(row(y)).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    let mut means = Vec::with_capacity(plane.len());
    for y in 0..height {
        means.extend(sums.iter().map(|sum| (sum / count as f64) as f32));
        if y + radius + 1 < height {
            sums.iter_mut().zip(row(y + radius + 1)).for_each(|(sum, value)| *sum += f64::from(*value));
            count += 1;
        }
        if y >= radius {
            sums.iter_mut().zip(row(y - radius)).for_each(|(sum, value)| *sum -= f64::from(*value));
            count -= 1;
        }
    }
    means
}

/// Appends the mean of the values around each place of a line.
fn running_mean(line: &[f32], radius: usize, means: &mut Vec<f32>) {
    // f64: a sum that loses what it took would leave rests of bright places behind.
    let mut count = line.len().min(radius + 1);
    let mut sum: f64 = line[..count].iter().copied().map(f64::from).sum();
    for index in 0..line.len() {
        means.push((sum / count as f64) as f32);
        if index + radius + 1 < line.len() {
            sum += f64::from(line[index + radius + 1]);
            count += 1;
        }
        if index >= radius {
            sum -= f64::from(line[index - radius]);
            count -= 1;
        }
    }
}

/// How steeply brightness rises at each pixel, in steps per pixel (Sobel), the largest of the pixels around it: how far
/// a shake by one pixel may change it.
///
/// # Shapes
/// `pixels` `[height, width]`, row-major; returns the same.
pub(super) fn slopes(pixels: &[[f32; 3]], width: usize) -> Vec<f32> {
    let height = pixels.len() / width;
    let levels: Vec<f32> = pixels.iter().map(brightness).collect();
    let at = |x: usize, y: usize| levels[y * width + x];
    let mut slopes = vec![0.0; levels.len()];
    for y in 0..height {
        let (above, below) = (y.saturating_sub(1), (y + 1).min(height - 1));
        for x in 0..width {
            let (left, right) = (x.saturating_sub(1), (x + 1).min(width - 1));
            let column = |x| at(x, above) + 2.0 * at(x, y) + at(x, below);
            let row = |y| at(left, y) + 2.0 * at(x, y) + at(right, y);
            let (across, down) = (column(right) - column(left), row(below) - row(above));
            slopes[y * width + x] = libm::sqrtf(across * across + down * down) / 8.0;
        }
    }
    let mut largest = slopes.clone();
    for y in 0..height {
        for x in 0..width {
            let around = (y.saturating_sub(1)..=(y + 1).min(height - 1))
                .flat_map(|y| (x.saturating_sub(1)..=(x + 1).min(width - 1)).map(move |x| y * width + x));
            largest[y * width + x] = around.map(|index| slopes[index]).fold(0.0, f32::max);
        }
    }
    largest
}

//! Filters on planes of numbers.

use super::small_frame::brightness;

/// The mean over the square of `2 * radius + 1` pixels a side around each pixel, as far as it lies in the plane.
///
/// # Shapes
/// `plane` `[height, width]`, row-major, `width` at least 1; returns the same.
pub(super) fn box_mean(plane: &[f32], width: usize, radius: usize) -> Vec<f32> {
    let (height, window) = (plane.len() / width, 2 * radius + 1);
    let mut across = vec![0.0; radius * width];
    for row in plane.chunks_exact(width) {
        let mut padded = vec![0.0; width + 2 * radius];
        padded[radius..][..width].copy_from_slice(row);
        across.extend(window_sums(padded, window, 1));
    }
    across.resize(across.len() + radius * width, 0.0);
    let mut means = window_sums(across, window, width);
    let inside = |place: usize, length: usize| place.min(radius) + 1 + (length - 1 - place).min(radius);
    let columns: Vec<f32> = (0..width).map(|x| inside(x, width) as f32).collect();
    for (y, row) in means.chunks_exact_mut(width).enumerate() {
        let rows = inside(y, height) as f32;
        row.iter_mut().zip(&columns).for_each(|(sum, columns)| *sum /= rows * columns);
    }
    means
}

/// The sums of `window` values each: of every value with those that are `step`, `2 * step`, ... behind it. There are as
/// many sums as values that have enough of these.
///
/// Sums of 2, 4, 8, ... values are made of each other, and a window of these: whole slices are added, on vector units.
/// Nothing is ever subtracted, so a bright place leaves no rest behind.
fn window_sums(values: Vec<f32>, window: usize, step: usize) -> Vec<f32> {
    let mut sums = vec![0.0; values.len() - (window - 1) * step];
    let (mut summed, mut powers) = (0, values);
    for power in (0..).map(|bit| 1 << bit).take_while(|power| *power <= window) {
        if window & power != 0 {
            sums.iter_mut().zip(&powers[summed * step..]).for_each(|(sum, value)| *sum += value);
            summed += power;
        }
        if 2 * power <= window {
            powers = powers.iter().zip(&powers[power * step..]).map(|(one, other)| one + other).collect();
        }
    }
    sums
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

#[cfg(test)]
mod tests {
    use orco_core::random::Random;

    use super::box_mean;

    #[test]
    fn means_are_those_of_the_pixels_around_that_lie_in_the_plane() {
        let mut random = Random::new(3, "plane");
        for ([width, height], radius) in
            [([7, 5], 1), ([7, 5], 0), ([1, 9], 2), ([9, 1], 3), ([6, 4], 12), ([40, 30], 8)]
        {
            let plane: Vec<f32> = (0..width * height).map(|_| random.uniform(0.0, 255.0)).collect();
            let means = box_mean(&plane, width, radius);
            assert_eq!(means.len(), plane.len());
            for (index, mean) in means.iter().enumerate() {
                let around =
                    |place: usize, length: usize| place.saturating_sub(radius)..(place + radius + 1).min(length);
                let (columns, rows) = (around(index % width, width), around(index / width, height));
                let count = columns.len() * rows.len();
                let pixels = rows.flat_map(|y| columns.clone().map(move |x| y * width + x));
                let expected = pixels.map(|at| f64::from(plane[at])).sum::<f64>() / count as f64;
                assert!((f64::from(*mean) - expected).abs() < 1e-3, "{width} x {height}, {radius}: {mean}, {expected}");
            }
        }
    }
}

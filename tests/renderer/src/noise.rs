//! Smooth pseudo-random fields for textures.

/// A number in 0..1 that depends on nothing but the lattice point and the salt.
pub fn lattice(x: i32, y: i32, salt: u32) -> f32 {
    let mut h =
        (x as u32).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca77) ^ salt.wrapping_mul(0xc2b2_ae3d);
    h = (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d);
    h = (h ^ (h >> 12)).wrapping_mul(0x297a_2d39);
    ((h ^ (h >> 15)) >> 8) as f32 / (1 << 24) as f32
}

/// Value noise in 0..1: [`lattice`] with smooth interpolation between its points.
pub fn value(x: f32, y: f32, salt: u32) -> f32 {
    let (cell_x, cell_y) = (x.floor(), y.floor());
    let fade = |t: f32| t * t * (3.0 - 2.0 * t);
    let (u, v) = (fade(x - cell_x), fade(y - cell_y));
    let (i, j) = (cell_x as i32, cell_y as i32);
    let row = |j: i32| lattice(i, j, salt) * (1.0 - u) + lattice(i + 1, j, salt) * u;
    row(j) * (1.0 - v) + row(j + 1) * v
}

/// Four octaves of value noise, in 0..1 with mean one half.
pub fn fractal(x: f32, y: f32, salt: u32) -> f32 {
    let mut sum = 0.0;
    let (mut scale, mut weight) = (1.0, 0.5);
    for octave in 0..4 {
        sum += weight * value(x * scale, y * scale, salt.wrapping_add(octave));
        scale *= 2.03;
        weight *= 0.5;
    }
    sum / 0.9375
}

//! From the light of a scene to a picture file.

use image::codecs::jpeg::JpegEncoder;
use image::{ImageResult, Rgb, RgbImage, Rgba, RgbaImage};

use crate::colour::{encoded, luminance};
use crate::object::Class;
use crate::random::Random;
use crate::scene::Scene;
use crate::vector::{Vec3, vec3};

/// Rays per pixel along each axis.
const SAMPLES: usize = 3;
const JPEG_QUALITY: u8 = 88;

/// A finished picture: sRGB pixels.
#[derive(Debug)]
pub struct Photograph(RgbImage);

impl Photograph {
    /// Takes a picture of `side` by `side` pixels of a random object of the class.
    pub fn taken(class: Class, side: usize, random: &mut Random) -> Self {
        let scene = Scene::random(class, random);
        let (mut light, object) = exposed(&scene, side);
        let exposure = random.between(0.88, 1.15) * metered(&light, &object);
        let balance = vec3(1.0 + 0.05 * random.bell(), 1.0, 1.0 + 0.05 * random.bell());
        let saturation = random.between(0.87, 1.0);
        let vignette = random.between(0.0, 0.22);
        let grain = random.between(0.002, 0.007);
        for (index, pixel) in light.iter_mut().enumerate() {
            let (x, y) = (centred(index % side, side), centred(index / side, side));
            let edge = 1.0 - vignette * (x * x + y * y) / 2.0;
            let level = *pixel * balance * (exposure * edge);
            *pixel = Vec3::splat(luminance(level)).lerp(level, saturation);
        }
        let pixels = RgbImage::from_fn(side as u32, side as u32, |x, y| {
            let shared = random.bell();
            let mut channel = |linear: f32| {
                let value = encoded(filmic(linear)) + grain * (shared + 0.5 * random.bell());
                (value * 255.0).round().clamp(0.0, 255.0) as u8
            };
            let pixel = light[y as usize * side + x as usize];
            Rgb([channel(pixel.x), channel(pixel.y), channel(pixel.z)])
        });
        Self(pixels)
    }

    /// The picture as a JPEG file.
    ///
    /// # Errors
    /// Those of the encoder; none is expected for a picture of this size.
    pub fn jpeg(&self) -> ImageResult<Vec<u8>> {
        let mut bytes = Vec::new();
        JpegEncoder::new_with_quality(&mut bytes, JPEG_QUALITY).encode_image(&self.0)?;
        Ok(bytes)
    }
}

/// A random object of the class with its mask as alpha channel, as a picture of `side` by `side` pixels.
pub fn thing(class: Class, side: usize, random: &mut Random) -> RgbaImage {
    let scene = Scene::random(class, random);
    let (light, object) = exposed_object(&scene, side);
    let exposure = metered(&light, &object);
    RgbaImage::from_fn(side as u32, side as u32, |x, y| {
        let pixel = y as usize * side + x as usize;
        let [red, green, blue] = byte_colour(light[pixel] * exposure);
        Rgba([red, green, blue, (object[pixel] * 255.0).round() as u8])
    })
}

/// A random setting without an object, as a picture of that size.
pub fn place(width: usize, height: usize, random: &mut Random) -> RgbImage {
    let scene = Scene::random(random.deal("place", &Class::ALL), random).emptied();
    let aspect = width as f32 / height as f32;
    let look = |x: usize, y: usize| scene.look(aspect * centred(x, width), -centred(y, height)).0;
    let light: Vec<Vec3> = (0..width * height).map(|pixel| look(pixel % width, pixel / width)).collect();
    let exposure = metered(&light, &vec![0.0; light.len()]);
    RgbImage::from_fn(width as u32, height as u32, |x, y| {
        Rgb(byte_colour(light[y as usize * width + x as usize] * exposure))
    })
}

/// The mean light on every pixel's part of the object, and the share of each pixel that shows the object.
fn exposed_object(scene: &Scene, side: usize) -> (Vec<Vec3>, Vec<f32>) {
    let (mut light, mut rays) = (vec![Vec3::default(); side * side], vec![0.0f32; side * side]);
    cast_rays(scene, side, |pixel, radiance, hit| {
        if hit {
            light[pixel] += radiance;
            rays[pixel] += 1.0;
        }
    });
    light.iter_mut().zip(&rays).for_each(|(light, rays)| *light *= 1.0 / rays.max(1.0));
    (light, rays.iter().map(|rays| rays / (SAMPLES * SAMPLES) as f32).collect())
}

/// Light as it is in a file.
fn byte_colour(light: Vec3) -> [u8; 3] {
    [light.x, light.y, light.z].map(|linear| (encoded(filmic(linear)) * 255.0).round().clamp(0.0, 255.0) as u8)
}

/// The light on every pixel, and the share of each pixel that shows the object.
fn exposed(scene: &Scene, side: usize) -> (Vec<Vec3>, Vec<f32>) {
    let weight = 1.0 / (SAMPLES * SAMPLES) as f32;
    let (mut light, mut object) = (vec![Vec3::default(); side * side], vec![0.0; side * side]);
    cast_rays(scene, side, |pixel, radiance, hit| {
        light[pixel] += radiance * weight;
        object[pixel] += if hit { weight } else { 0.0 };
    });
    (light, object)
}

/// Casts all rays of every pixel; `add` gets the pixel, a ray's light, and whether it hits the object.
fn cast_rays(scene: &Scene, side: usize, mut add: impl FnMut(usize, Vec3, bool)) {
    let fine = side * SAMPLES;
    for (x, y) in (0..fine * fine).map(|ray| (ray % fine, ray / fine)) {
        let (radiance, hit) = scene.look(centred(x, fine), -centred(y, fine));
        // A lamp's mirror image is far brighter than white: bounded, its edge stays smooth.
        add(y / SAMPLES * side + x / SAMPLES, radiance.map(|channel| channel.min(6.0)), hit);
    }
}

/// The factor that makes the picture neither dark nor pale, measured mostly on the object.
fn metered(light: &[Vec3], object: &[f32]) -> f32 {
    let (mut sum, mut weights) = (0.0, 0.0);
    let mut brightness: Vec<f32> = light.iter().map(|&pixel| luminance(pixel)).collect();
    for (level, share) in brightness.iter().zip(object) {
        let weight = 0.6 + share;
        sum += weight * libm::logf(level + 0.02);
        weights += weight;
    }
    let mean = libm::expf(sum / weights);
    brightness.sort_by(f32::total_cmp);
    let bright = brightness[brightness.len() * 97 / 100];
    (0.2 / mean).min(0.85 / bright)
}

/// The tone curve of film (Narkowicz's fit of the ACES curve).
fn filmic(x: f32) -> f32 {
    x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14)
}

/// The middle of cell `index` out of `count` along -1..1.
fn centred(index: usize, count: usize) -> f32 {
    (index as f32 + 0.5) / count as f32 * 2.0 - 1.0
}

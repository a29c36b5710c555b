//! The object in its setting, and the light that travels along a ray.

use crate::backdrop::Backdrop;
use crate::camera::Camera;
use crate::floor::{Floor, FloorKind};
use crate::light::Light;
use crate::object::{Bounds, Class, Object, View};
use crate::random::Random;
use crate::surface::Surface;
use crate::vector::{Vec3, vec3};

/// Everything before and behind the lens.
pub struct Scene {
    object: Box<dyn Object>,
    bounds: Bounds,
    floor: Floor,
    backdrop: Backdrop,
    light: Light,
    /// The camera, already framed on the object.
    pub camera: Camera,
}

const UP: Vec3 = vec3(0.0, 1.0, 0.0);
/// Rays that come this near have hit.
const TOUCH: f32 = 0.0008;
/// How far beyond the object's box its soft shadow and occlusion reach.
const REACH: f32 = 0.35;
/// Rows and columns of the first look that frames the object.
const FINDER: usize = 56;

impl Scene {
    /// A random object of the class in a random setting.
    pub fn random(class: Class, random: &mut Random) -> Self {
        let object = class.object(random);
        let bounds = object.bounds();
        let floor = Floor::random(random.deal("floor", &FloorKind::ALL), random);
        let (camera, azimuth) = Camera::random(object.view(), &bounds, random);
        let light = Light::random(azimuth, floor.site(), random);
        let backdrop = Backdrop::random(floor.site(), camera.forward, bounds.radius(), random);
        let mut scene = Self { object, bounds, floor, backdrop, light, camera };
        scene.camera = camera.framed(scene.silhouette(), random);
        scene
    }

    /// This setting, from which the object was taken away.
    pub fn emptied(self) -> Self {
        Self { object: Box::new(Nothing { bounds: self.bounds, view: self.object.view() }), ..self }
    }

    /// The light that arrives through the window at (x, y), and whether it comes from the object.
    pub fn look(&self, x: f32, y: f32) -> (Vec3, bool) {
        let (origin, direction) = (self.camera.position, self.camera.direction(x, y));
        if let Some(along) = self.met(origin, direction) {
            let p = origin + direction * along;
            return (self.lit(p, self.normal(p), direction, self.object.surface(p)), true);
        }
        let to_floor = if direction.y < -1e-4 { -origin.y / direction.y } else { f32::INFINITY };
        match self.backdrop.crossed(origin, direction) {
            Some(along) if along < to_floor => {
                let p = origin + direction * along;
                (self.lit(p, self.backdrop.normal(), direction, Surface::matt(self.backdrop.colour(p))), false)
            }
            _ if to_floor.is_finite() => {
                let p = origin + direction * to_floor;
                (self.lit(p, UP, direction, self.floor.surface(p.x, p.z)), false)
            }
            _ => (self.light.ambient, false),
        }
    }

    /// Where the object lies in the camera's window.
    fn silhouette(&self) -> ((f32, f32), (f32, f32)) {
        let (mut across, mut up) = ((1.0_f32, -1.0_f32), (1.0_f32, -1.0_f32));
        let place = |index: usize| (index as f32 + 0.5) / FINDER as f32 * 2.0 - 1.0;
        for (x, y) in (0..FINDER * FINDER).map(|index| (place(index % FINDER), place(index / FINDER))) {
            if self.met(self.camera.position, self.camera.direction(x, y)).is_some() {
                across = (across.0.min(x), across.1.max(x));
                up = (up.0.min(y), up.1.max(y));
            }
        }
        let pixel = 1.0 / FINDER as f32;
        ((across.0 - pixel, across.1 + pixel), (up.0 - pixel, up.1 + pixel))
    }

    /// How far a ray travels until it meets the object.
    fn met(&self, origin: Vec3, direction: Vec3) -> Option<f32> {
        let (mut along, leave) = self.bounds.grown(0.01).crossed(origin, direction)?;
        for _ in 0..160 {
            let distance = self.object.distance(origin + direction * along);
            if distance < TOUCH {
                return Some(along);
            }
            along += distance * 0.9;
            if along > leave {
                break;
            }
        }
        None
    }

    fn normal(&self, p: Vec3) -> Vec3 {
        let step = 0.0012;
        let slope = |corner: Vec3| corner * self.object.distance(p + corner * step);
        let (a, b) = (slope(vec3(1.0, -1.0, -1.0)), slope(vec3(-1.0, -1.0, 1.0)));
        (a + b + slope(vec3(-1.0, 1.0, -1.0)) + slope(vec3(1.0, 1.0, 1.0))).normalize()
    }

    /// The light that a surface at `p` sends back against `direction`.
    fn lit(&self, p: Vec3, normal: Vec3, direction: Vec3, surface: Surface) -> Vec3 {
        let open = self.openness(p, normal);
        let light = &self.light;
        let facing = normal.dot(light.direction).max(0.0);
        let start = p + normal * 0.006;
        let sun = if facing > 0.0 { facing * self.lightness(start, light.direction) } else { 0.0 };
        let bounced = self.floor.mean_colour() * (light.key * (0.3 * light.direction.y) + light.ambient * 0.3);
        let above = 0.5 + 0.5 * normal.y;
        let around = light.ambient * (above * open) + bounced * ((1.0 - above) * (0.35 + 0.65 * open));

        let mirrored = direction.reflect(normal);
        let grazing = 1.0 + direction.dot(normal).min(0.0);
        let fresnel = grazing * grazing * grazing * grazing * grazing * (1.0 - surface.roughness * 0.8);
        let base = if surface.metal { surface.colour } else { Vec3::splat(0.04 * (1.0 - surface.roughness * 0.7)) };
        let share = base.lerp(Vec3::splat(1.0), fresnel);
        let seen = if mirrored.y > 0.0 {
            let clear = self.lightness(start, mirrored);
            light.surroundings(mirrored, surface.roughness) * (0.25 + 0.75 * clear)
        } else {
            self.floor.mean_colour() * (light.key * (0.6 * light.direction.y) + light.ambient * 0.5) * open
        };
        let scattered = if surface.metal { Vec3::default() } else { surface.colour * (light.key * sun + around) };
        scattered + seen * share
    }

    /// The share of a large lamp in `direction` that `p` sees past the object.
    fn lightness(&self, p: Vec3, direction: Vec3) -> f32 {
        let Some((enter, leave)) = self.bounds.grown(REACH).crossed(p, direction) else {
            return 1.0;
        };
        let (mut along, mut share) = (enter.max(0.004), 1.0_f32);
        for _ in 0..48 {
            let distance = self.object.distance(p + direction * along);
            share = share.min(0.5 + 0.5 * self.light.sharpness * distance / along);
            if share <= 0.0 || along > leave {
                break;
            }
            along += distance.clamp(0.008, 0.25);
        }
        let share = share.clamp(0.0, 1.0);
        share * share * (3.0 - 2.0 * share)
    }

    /// How much of the sky a point sees: 0 in a corner, 1 in the open.
    fn openness(&self, p: Vec3, normal: Vec3) -> f32 {
        let near = self.bounds.grown(REACH);
        let outside = |c: f32, low: f32, high: f32| c < low || c > high;
        if outside(p.x, near.low.x, near.high.x)
            || outside(p.y, near.low.y, near.high.y)
            || outside(p.z, near.low.z, near.high.z)
        {
            return 1.0;
        }
        let (mut hidden, mut weight) = (0.0, 1.0);
        for step in [0.02, 0.06, 0.13, 0.23, 0.36] {
            let q = p + normal * step;
            let distance = self.object.distance(q).min(q.y + 0.02);
            hidden += weight * (step - distance).max(0.0);
            weight *= 0.72;
        }
        (1.0 - 1.6 * hidden).clamp(0.08, 1.0)
    }
}

/// No object.
struct Nothing {
    bounds: Bounds,
    view: View,
}

impl Object for Nothing {
    fn distance(&self, _: Vec3) -> f32 {
        f32::INFINITY
    }

    fn surface(&self, _: Vec3) -> Surface {
        Surface::matt(Vec3::default())
    }

    fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn view(&self) -> View {
        self.view
    }
}

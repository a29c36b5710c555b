//! The classes of objects, one file each.

mod cactus;
mod dumbbell;
mod mug;
mod rubber_duck;
mod toy_brick;
mod traffic_cone;

use crate::random::Random;
use crate::surface::Surface;
use crate::vector::Vec3;

/// A class of objects that can be photographed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A saguaro with arms in a flower pot.
    Cactus,
    /// A short dumbbell with hexagonal or round heads.
    Dumbbell,
    /// A coffee mug with a handle.
    Mug,
    /// A bath duck.
    RubberDuck,
    /// A plastic brick with studs, or two of them.
    ToyBrick,
    /// An orange cone with white bands.
    TrafficCone,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 6] =
        [Self::Cactus, Self::Dumbbell, Self::Mug, Self::RubberDuck, Self::ToyBrick, Self::TrafficCone];

    /// The folder name of the class.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cactus => "cactus",
            Self::Dumbbell => "dumbbell",
            Self::Mug => "mug",
            Self::RubberDuck => "rubber-duck",
            Self::ToyBrick => "toy-brick",
            Self::TrafficCone => "traffic-cone",
        }
    }

    /// A random member of the class.
    pub fn object(self, random: &mut Random) -> Box<dyn Object> {
        match self {
            Self::Cactus => Box::new(cactus::Cactus::random(random)),
            Self::Dumbbell => Box::new(dumbbell::Dumbbell::random(random)),
            Self::Mug => Box::new(mug::Mug::random(random)),
            Self::RubberDuck => Box::new(rubber_duck::RubberDuck::random(random)),
            Self::ToyBrick => Box::new(toy_brick::ToyBrick::random(random)),
            Self::TrafficCone => Box::new(traffic_cone::TrafficCone::random(random)),
        }
    }
}

/// A thing that stands on the floor (y = 0) around the origin and is about one unit large.
pub trait Object {
    /// A lower bound of the distance from `p` to the object, negative inside.
    fn distance(&self, p: Vec3) -> f32;

    /// The material at the surface point next to `p`.
    fn surface(&self, p: Vec3) -> Surface;

    /// A box that holds the object.
    fn bounds(&self) -> Bounds;

    /// From where people photograph it.
    fn view(&self) -> View;
}

/// A box with sides along the axes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The corner with the smallest coordinates.
    pub low: Vec3,
    /// The corner with the largest coordinates.
    pub high: Vec3,
}

impl Bounds {
    /// The middle of the box.
    pub fn centre(&self) -> Vec3 {
        (self.low + self.high) * 0.5
    }

    /// The radius of the ball around the box.
    pub fn radius(&self) -> f32 {
        (self.high - self.low).length() / 2.0
    }

    /// The box with every side moved outwards by `margin`.
    pub fn grown(&self, margin: f32) -> Self {
        Self { low: self.low - Vec3::splat(margin), high: self.high + Vec3::splat(margin) }
    }

    /// Where a ray from `origin` along `direction` enters and leaves the box, if it meets it ahead.
    pub fn crossed(&self, origin: Vec3, direction: Vec3) -> Option<(f32, f32)> {
        let (mut enter, mut leave) = (0.0_f32, f32::INFINITY);
        for (o, d, low, high) in [
            (origin.x, direction.x, self.low.x, self.high.x),
            (origin.y, direction.y, self.low.y, self.high.y),
            (origin.z, direction.z, self.low.z, self.high.z),
        ] {
            let (a, b) = ((low - o) / d, (high - o) / d);
            enter = enter.max(a.min(b));
            leave = leave.min(a.max(b));
        }
        (enter < leave).then_some((enter, leave))
    }
}

/// The directions from which an object is usually photographed, in degrees.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The direction of the camera about the vertical axis: 0 is +x, 90 is +z.
    pub azimuth: f32,
    /// How far the camera may turn from `azimuth` to either side.
    pub spread: f32,
    /// True if the camera may as well stand on the other side of the x axis.
    pub mirrored: bool,
    /// The lowest and the highest elevation of the camera.
    pub elevation: (f32, f32),
}

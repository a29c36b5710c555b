//! A saguaro in a flower pot.

use super::{Bounds, Object, View};
use crate::colour::{hex, hsv};
use crate::distance::{capsule, cylinder, ellipsoid, frustum, smooth_union};
use crate::noise::lattice;
use crate::random::Random;
use crate::surface::{Surface, nearest};
use crate::vector::{Vec3, vec3};

/// Pot colours: three of clay, white, blue, anthracite.
const POTS: [u32; 6] = [0xb5613c, 0xa34f30, 0xc97b50, 0xdedbd2, 0x3f6f9f, 0x45474c];
const POT_HEIGHT: f32 = 0.4;

/// A potted cactus; its arms lie about in the plane z = 0.
#[derive(Debug)]
pub struct Cactus {
    pot_low: f32,
    pot_high: f32,
    trunk: f32,
    top: f32,
    ribs: f32,
    arms: Vec<Arm>,
    flower: bool,
    pot: Surface,
    skin: Surface,
    blossom: Surface,
    salt: u32,
}

#[derive(Debug)]
struct Arm {
    root: Vec3,
    elbow: Vec3,
    tip: Vec3,
    radius: f32,
}

impl Cactus {
    /// A random cactus.
    pub fn random(random: &mut Random) -> Self {
        let trunk = random.between(0.15, 0.19);
        let top = random.between(1.15, 1.4);
        let sides: &[f32] = match random.deal("arms", &[2, 1, 2, 3]) {
            1 => &[1.0],
            2 => &[1.0, -1.0],
            _ => &[1.0, -1.0, 1.0],
        };
        let flip = random.sign();
        let arms = (sides.iter().enumerate())
            .map(|(index, side)| Arm::random(random, side * flip, trunk, top, index == 2))
            .collect();
        let pot = Surface::matt(hex(random.deal("pot", &POTS)));
        Self {
            pot_low: random.between(0.2, 0.26),
            pot_high: random.between(0.3, 0.37),
            trunk,
            top,
            ribs: random.between(8.0, 12.0).floor(),
            arms,
            flower: random.chance(0.4),
            pot: Surface { roughness: random.between(0.3, 0.95), ..pot },
            skin: Surface::satin(hsv(
                random.between(88.0, 138.0),
                random.between(0.5, 0.75),
                random.between(0.42, 0.62),
            )),
            blossom: Surface::satin(hsv(random.between(300.0, 360.0), 0.75, 0.9)),
            salt: random.salt(),
        }
    }

    fn pot_distance(&self, p: Vec3) -> f32 {
        let body = frustum(p, (0.0, self.pot_low), (POT_HEIGHT, self.pot_high), 0.015);
        let rim = cylinder(p, self.pot_high + 0.035, POT_HEIGHT - 0.09, POT_HEIGHT, 0.015);
        let hollow = cylinder(p, self.pot_high - 0.035, POT_HEIGHT - 0.05, POT_HEIGHT + 0.1, 0.0);
        body.min(rim).max(-hollow)
    }

    fn soil_distance(&self, p: Vec3) -> f32 {
        cylinder(p, self.pot_high - 0.02, POT_HEIGHT - 0.12, POT_HEIGHT - 0.04, 0.0)
    }

    /// How far the ribs stand out at `p` around the vertical axis through `x`, `z`; -1 to 1.
    fn rib(&self, p: Vec3, x: f32, z: f32) -> f32 {
        libm::cosf(libm::atan2f(p.z - z, p.x - x) * self.ribs)
    }

    fn plant_distance(&self, p: Vec3) -> f32 {
        let foot = vec3(0.0, POT_HEIGHT - 0.1, 0.0);
        let mut plant = capsule(p, foot, vec3(0.0, self.top - self.trunk, 0.0), self.trunk);
        // Far away the ribs do not matter, and their angle is costly.
        if plant < 0.08 {
            plant -= 0.014 * self.rib(p, 0.0, 0.0);
        }
        for arm in &self.arms {
            let level = capsule(p, arm.root, arm.elbow, arm.radius * 0.9);
            let mut upright = capsule(p, arm.elbow, arm.tip, arm.radius);
            if upright < 0.08 {
                upright -= 0.01 * self.rib(p, arm.tip.x, arm.tip.z);
            }
            plant = smooth_union(plant, smooth_union(level, upright, 0.05), 0.05);
        }
        plant
    }

    fn flower_distance(&self, p: Vec3) -> f32 {
        if !self.flower {
            return f32::INFINITY;
        }
        let q = p - vec3(0.0, self.top + 0.02, 0.0);
        ellipsoid(q, vec3(0.1, 0.055, 0.1)) - 0.018 * libm::cosf(libm::atan2f(q.z, q.x) * 6.0)
    }

    /// The skin with its rows of pale spines.
    fn skin_at(&self, p: Vec3) -> Surface {
        let (x, z) = (self.arms.iter())
            .find(|arm| capsule(p, arm.elbow, arm.tip, arm.radius) < 0.02)
            .map_or((0.0, 0.0), |arm| (arm.tip.x, arm.tip.z));
        let rib = self.rib(p, x, z);
        let row = (p.y * 16.0).floor();
        let spine = rib > 0.82 && (p.y * 16.0 - row) < 0.4 && lattice(row as i32, 0, self.salt) < 0.9;
        if spine { Surface::matt(hex(0xd8d2a8)) } else { self.skin.shaded(0.82 + 0.22 * rib) }
    }
}

impl Arm {
    fn random(random: &mut Random, side: f32, trunk: f32, top: f32, short: bool) -> Self {
        let radius = trunk * random.between(0.55, 0.68);
        let low = if short { 0.95 } else { random.between(0.62, 0.82) };
        let reach = side * (trunk + radius + random.between(0.08, 0.16));
        let tip = (low + random.between(0.2, 0.36)).min(top - 0.1);
        let depth = random.between(-0.06, 0.06);
        Self {
            root: vec3(0.0, low - 0.03, 0.0),
            elbow: vec3(reach, low, depth),
            tip: vec3(reach, tip.max(low + 0.1), depth),
            radius: if short { radius * 0.85 } else { radius },
        }
    }
}

impl Object for Cactus {
    fn distance(&self, p: Vec3) -> f32 {
        let pot = self.pot_distance(p).min(self.soil_distance(p));
        pot.min(self.plant_distance(p)).min(self.flower_distance(p)) * 0.85
    }

    fn surface(&self, p: Vec3) -> Surface {
        nearest([
            (self.pot_distance(p), self.pot),
            (self.soil_distance(p), Surface::matt(hex(0x3b2a1e))),
            (self.plant_distance(p), self.skin_at(p)),
            (self.flower_distance(p), self.blossom),
        ])
    }

    fn bounds(&self) -> Bounds {
        let pot = self.pot_high + 0.05;
        let reach = self.arms.iter().map(|arm| arm.tip.x.abs() + arm.radius + 0.03).fold(pot, f32::max);
        Bounds { low: vec3(-reach, 0.0, -pot), high: vec3(reach, self.top + 0.1, pot) }
    }

    fn view(&self) -> View {
        View { azimuth: 90.0, spread: 42.0, mirrored: true, elevation: (6.0, 32.0) }
    }
}

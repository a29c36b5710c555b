//! What the object stands on.

use crate::colour::{hex, hsv};
use crate::noise::{fractal, lattice, value};
use crate::random::Random;
use crate::surface::Surface;
use crate::vector::{Vec3, smoothstep, turned_xz, vec3};

/// A kind of floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloorKind {
    /// Wooden boards.
    Wood,
    /// Gingham table cloth.
    Checks,
    /// Glazed tiles with grout.
    Tiles,
    /// A lawn.
    Grass,
    /// Concrete or asphalt.
    Stone,
    /// A sheet of coloured paper.
    Paper,
}

impl FloorKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::Wood, Self::Checks, Self::Tiles, Self::Grass, Self::Stone, Self::Paper];
}

/// A textured floor in the plane y = 0.
#[derive(Debug)]
pub struct Floor {
    kind: FloorKind,
    angle: f32,
    /// Size of a board, check or tile.
    pitch: f32,
    first: Vec3,
    second: Vec3,
    gloss: f32,
    salt: u32,
}

const WOOD: [u32; 5] = [0xb98552, 0x8a5a34, 0xd2a878, 0x5f3d26, 0xa9784a];
const CLOTH: [u32; 6] = [0xb3383a, 0x3a5c9c, 0x4d8055, 0x8a6fa8, 0xc98b3b, 0x5f6b78];
const TILE: [u32; 5] = [0xcfd3d2, 0x9fb4b8, 0xb9765a, 0x7f9a8d, 0xd8cdb8];
const STONE: [u32; 4] = [0x8f8c86, 0x5c5d60, 0xa79f92, 0x75787c];

/// Where a scene is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// In a room.
    Indoors,
    /// Under the open sky.
    Outdoors,
}

impl Floor {
    /// A floor of the given kind with random colours, size and direction.
    pub fn random(kind: FloorKind, random: &mut Random) -> Self {
        let mut pick = |codes: &[u32]| {
            let index = (random.between(0.0, codes.len() as f32)) as usize;
            hex(codes[index.min(codes.len() - 1)])
        };
        let (first, second) = match kind {
            FloorKind::Wood => (pick(&WOOD), hex(0x2a1a10)),
            FloorKind::Checks => (pick(&CLOTH), hex(0xdeddd4)),
            FloorKind::Tiles => (pick(&TILE), hex(0x8d8a84)),
            FloorKind::Stone => (pick(&STONE), hex(0x3a3a3a)),
            FloorKind::Grass => (
                hsv(random.between(75.0, 112.0), random.between(0.42, 0.64), random.between(0.4, 0.55)),
                hsv(random.between(55.0, 90.0), 0.5, 0.7),
            ),
            FloorKind::Paper => {
                let hue = random.between(0.0, 360.0);
                let colour = hsv(hue, random.between(0.03, 0.38), random.between(0.45, 0.85));
                (colour, colour)
            }
        };
        let pitch = match kind {
            FloorKind::Wood => random.between(0.35, 0.8),
            FloorKind::Checks => random.between(0.09, 0.2),
            _ => random.between(0.45, 0.9),
        };
        Self {
            kind,
            angle: random.between(0.0, std::f32::consts::TAU),
            pitch,
            first: first * random.between(0.85, 1.12),
            second,
            gloss: random.between(0.25, 0.6),
            salt: random.salt(),
        }
    }

    /// Where such a floor is.
    pub fn site(&self) -> Site {
        match self.kind {
            FloorKind::Grass | FloorKind::Stone => Site::Outdoors,
            _ => Site::Indoors,
        }
    }

    /// The colour of the floor from far away.
    pub fn mean_colour(&self) -> Vec3 {
        match self.kind {
            FloorKind::Checks => self.first.lerp(self.second, 0.5),
            _ => self.first,
        }
    }

    /// The material at (x, z).
    pub fn surface(&self, x: f32, z: f32) -> Surface {
        let p = turned_xz(vec3(x, 0.0, z), self.angle);
        match self.kind {
            FloorKind::Wood => self.wood(p.x, p.z),
            FloorKind::Checks => self.checks(p.x, p.z),
            FloorKind::Tiles => self.tiles(p.x, p.z),
            FloorKind::Grass => self.grass(p.x, p.z),
            FloorKind::Stone => self.stone(p.x, p.z),
            FloorKind::Paper => Surface::matt(self.first * (0.95 + 0.1 * fractal(p.x * 1.5, p.z * 1.5, self.salt))),
        }
    }

    fn wood(&self, x: f32, z: f32) -> Surface {
        let board = (z / self.pitch).floor();
        let within = z / self.pitch - board;
        let tone = 0.78 + 0.4 * lattice(board as i32, 7, self.salt);
        let shift = lattice(board as i32, 3, self.salt) * 40.0;
        let wave = fractal(x * 1.1 + shift, z * 5.0, self.salt);
        let rings = 0.5 + 0.5 * libm::sinf((z * 9.0 + wave * 3.0 + shift) * 5.0);
        let fibre = fractal(x * 3.0 + shift, z * 45.0, self.salt ^ 1);
        let gap = smoothstep(0.0, 0.025, within.min(1.0 - within) * self.pitch);
        let shade = tone * (0.72 + 0.2 * rings * wave + 0.36 * fibre);
        let colour = self.second.lerp(self.first * shade, 0.25 + 0.75 * gap);
        Surface { roughness: self.gloss, ..Surface::satin(colour) }
    }

    fn checks(&self, x: f32, z: f32) -> Surface {
        let fold = 0.05 * fractal(x * 0.8, z * 0.8, self.salt);
        let stripe = |t: f32| f32::from(u8::from((t / (2.0 * self.pitch)).rem_euclid(1.0) < 0.5));
        let dye = (stripe(x + fold) + stripe(z - fold)) / 2.0;
        let weave = 0.86 + 0.28 * value(x * 70.0, z * 70.0, self.salt);
        let drape = 0.85 + 0.3 * fractal(x * 1.3, z * 1.3, self.salt ^ 5);
        Surface::matt(self.second.lerp(self.first, dye) * (weave * drape))
    }

    fn tiles(&self, x: f32, z: f32) -> Surface {
        let (i, j) = ((x / self.pitch).floor(), (z / self.pitch).floor());
        let edge = |t: f32, cell: f32| {
            let within = t / self.pitch - cell;
            within.min(1.0 - within) * self.pitch
        };
        let inside = smoothstep(0.008, 0.02, edge(x, i).min(edge(z, j)));
        let tone = 0.86 + 0.22 * lattice(i as i32, j as i32, self.salt);
        let cloud = 0.88 + 0.24 * fractal(x * 3.0 + i * 5.0, z * 3.0, self.salt);
        let tile = self.first * (tone * cloud);
        Surface { roughness: 0.85 - 0.6 * inside, ..Surface::satin(self.second.lerp(tile, inside)) }
    }

    fn grass(&self, x: f32, z: f32) -> Surface {
        let patch = fractal(x * 1.2, z * 1.2, self.salt);
        let (bend_x, bend_z) = (value(x * 4.0, z * 4.0, self.salt ^ 2), value(x * 4.0, z * 4.0, self.salt ^ 3));
        // Two layers of blades that lean differently.
        let along = value((x + z * 0.5 + bend_x * 0.2) * 26.0, (z - x * 0.5) * 7.0, self.salt ^ 8);
        let across = value((x - z * 0.7) * 8.0, (z + x * 0.7 + bend_z * 0.2) * 24.0, self.salt ^ 9);
        let blade = along.max(across);
        let colour = self.first.lerp(self.second, smoothstep(0.45, 0.95, patch * 0.5 + blade * 0.5) * 0.55);
        Surface::matt(colour * (0.22 + 1.05 * blade))
    }

    fn stone(&self, x: f32, z: f32) -> Surface {
        let cloud = fractal(x * 1.6, z * 1.6, self.salt);
        let grain = value(x * 38.0, z * 38.0, self.salt ^ 4);
        let fine = fractal(x * 14.0, z * 14.0, self.salt ^ 6);
        let pit = smoothstep(0.8, 0.95, grain);
        let colour = self.first * (0.6 + 0.35 * cloud + 0.3 * fine + 0.12 * grain);
        Surface::matt(colour.lerp(self.second, pit * 0.4))
    }
}

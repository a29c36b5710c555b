//! Which pieces of foreground stand still, and whether one of them turns out to be a hole.

use std::time::Duration;

use super::foreground::Foreground;
use super::hole::HoleSearch;
use super::region::PixelRect;
use super::streak::Streak;

/// Intersection over union with where a piece was first seen, up from which it stands still.
const MIN_OVERLAP: f32 = 0.7;
/// How long a piece must stand still before it is judged: most of what comes into view is gone by then.
const STILL_AFTER: Duration = Duration::from_secs(3);
/// Least time between two judgements of a piece.
const STEP: Duration = Duration::from_secs(1);
/// For how long all judgements must have said that a piece is a hole, and how many there must be.
const HOLE_AFTER: Duration = Duration::from_secs(10);
const MIN_JUDGEMENTS: u32 = 6;
/// How long nothing may be seen where a hole was before it counts as filled.
const FILLED_AFTER: Duration = Duration::from_secs(4);

/// The pieces of foreground in a running camera's frames, and the hole that was found, in pixels of the small frame.
#[derive(Clone, Debug, Default)]
pub(super) struct StillPieces {
    pieces: Vec<Piece>,
    hole: Option<FoundHole>,
}

/// A piece of foreground.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Where it was first seen.
    bounds: PixelRect,
    since: Duration,
    /// When it was last judged.
    judged: Option<Duration>,
    /// The latest judgements that say that it is a hole; none where the last one does not.
    hole_judgements: Option<Streak>,
}

/// A piece that turned out to be a hole.
#[derive(Clone, Copy, Debug)]
struct FoundHole {
    bounds: PixelRect,
    /// Since when nothing was seen there.
    filled: Option<Duration>,
}

impl StillPieces {
    /// Where there is a hole, in pixels of the small frame.
    pub fn hole(&self) -> Option<PixelRect> {
        self.hole.map(|hole| hole.bounds)
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes up the pieces of a frame, those of each region with where in the small frame they were looked for. What
    /// judges pieces is made by `search`, once, and only if one is to be judged.
    pub fn see<'a>(
        &mut self,
        foregrounds: impl Iterator<Item = (&'a Foreground, PixelRect)>,
        small_size: [u32; 2],
        search: impl Fn() -> HoleSearch<'a>,
        at: Duration,
    ) {
        let (mut seen, mut opened) = (Vec::new(), None);
        for (foreground, searched) in foregrounds {
            for thing in foreground.things() {
                let bounds = thing.bounds.in_small_frame(foreground.frame_size, small_size);
                let mut piece = self.piece_at(bounds, at);
                if piece.is_due(at) {
                    let search = opened.get_or_insert_with(&search);
                    piece.judge(search.is_hole(&foreground.marks, thing.mark, searched), at);
                }
                if piece.is_hole(at) {
                    self.hole.get_or_insert(FoundHole { bounds: piece.bounds, filled: None });
                }
                seen.push(piece);
            }
        }
        self.pieces = seen;
        self.note_filled(at);
    }

    /// The piece that was seen there, or a new one.
    fn piece_at(&self, bounds: PixelRect, at: Duration) -> Piece {
        let overlap = |piece: &&Piece| piece.bounds.intersection_over_union(bounds);
        let nearest = self.pieces.iter().max_by(|one, other| overlap(one).total_cmp(&overlap(other)));
        let known = nearest.filter(|piece| overlap(piece) >= MIN_OVERLAP);
        known.copied().unwrap_or(Piece { bounds, since: at, judged: None, hole_judgements: None })
    }

    /// Forgets the hole once nothing was seen there for a while: the thing is back.
    fn note_filled(&mut self, at: Duration) {
        let Some(hole) = &mut self.hole else { return };
        if self.pieces.iter().any(|piece| piece.bounds.intersection_over_union(hole.bounds) > 0.0) {
            hole.filled = None;
        } else if at.saturating_sub(*hole.filled.get_or_insert(at)) >= FILLED_AFTER {
            self.hole = None;
        }
    }
}

impl Piece {
    /// Whether it has stood still for long enough to be judged, and was not judged a moment ago.
    fn is_due(&self, at: Duration) -> bool {
        at.saturating_sub(self.since) >= STILL_AFTER
            && self.judged.is_none_or(|judged| at.saturating_sub(judged) >= STEP)
    }

    fn judge(&mut self, is_hole: bool, at: Duration) {
        self.judged = Some(at);
        self.hole_judgements = is_hole.then(|| Streak::continued(self.hole_judgements, at));
    }

    fn is_hole(&self, at: Duration) -> bool {
        self.hole_judgements.is_some_and(|streak| streak.has_lasted(HOLE_AFTER, MIN_JUDGEMENTS, at))
    }
}

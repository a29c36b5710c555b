//! Accuracies of a session, from counts of right answers per class.

use std::fmt;

use orco_state::target::argmax;
use serde::{Deserialize, Serialize};

use crate::spread::two_decimals;

/// One session's accuracies, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionAccuracy {
    /// The session, 0 before anything was learned.
    pub session: usize,
    /// A_base: mean over the base classes of their accuracies.
    pub base: f64,
    /// A_inc: mean over all incremental classes seen.
    pub inc: Option<f64>,
    /// Harmonic mean of both.
    pub hm: Option<f64>,
    /// Pooled accuracy over all images of the classes seen.
    pub top1: f64,
    /// Area under the curve of A_inc over A_base as a bias moves the border between them (calibrated stacking, Chao et
    /// al., ECCV 2016): no choice of border can flatter it.
    pub area: Option<f64>,
}

impl SessionAccuracy {
    /// Names the columns of a row as it is printed.
    pub const HEADING: &'static str = "session    base     inc      hm   top-1    area";

    /// Names of [`SessionAccuracy::numbers`].
    pub const NAMES: [&'static str; 5] = ["base", "inc", "hm", "top-1", "area"];

    /// All numbers of the row, in the order in which they are printed.
    pub fn numbers(&self) -> [Option<f64>; 5] {
        [Some(self.base), self.inc, self.hm, Some(self.top1), self.area]
    }
}

/// One line of a table, `-` for what the session does not have.
impl fmt::Display for SessionAccuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [inc, hm, area] = [self.inc, self.hm, self.area].map(percent_or_dash);
        write!(f, "{:>7} {:>7.2} {inc:>7} {hm:>7} {:>7.2} {area:>7}", self.session, self.base, self.top1)
    }
}

/// HM: the harmonic mean of an accuracy on base classes and one on learned classes; 0 where both are.
pub fn harmonic_mean(base: f64, inc: f64) -> f64 {
    if base + inc > 0.0 { 2.0 * base * inc / (base + inc) } else { 0.0 }
}

/// A percentage with two decimals, `-` where there is none.
pub fn percent_or_dash(percent: Option<f64>) -> String {
    percent.map_or_else(|| "-".to_string(), two_decimals)
}

/// What an image says about the border between base classes and incremental ones.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ImageMargin {
    class: usize,
    /// The highest score of an incremental class less the highest one of a base class.
    margin: f32,
    /// Whether the best class of the image's own side is its class.
    right: bool,
}

/// Right answers and images of every class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccuracyCounts {
    base: usize,
    right: Vec<u64>,
    total: Vec<u64>,
    /// Of every image whose scores were counted.
    margins: Vec<ImageMargin>,
}

impl AccuracyCounts {
    /// Nothing measured yet, for `classes` classes, of which the first `base` are base classes.
    pub fn new(classes: usize, base: usize) -> Self {
        Self { base, right: vec![0; classes], total: vec![0; classes], margins: Vec::new() }
    }

    /// Counts one image by its answer alone, from which no area can be told.
    ///
    /// # Panics
    /// If the class is out of range.
    pub fn count(&mut self, class: usize, answer: usize) {
        self.right[class] += u64::from(class == answer);
        self.total[class] += 1;
    }

    /// Counts one image by the scores of all classes.
    ///
    /// # Panics
    /// If the class is out of range, or the scores are not those of all classes.
    pub fn count_scores(&mut self, class: usize, scores: &[f32]) {
        assert_eq!(scores.len(), self.total.len(), "there must be a score of every class");
        self.count(class, argmax(scores));
        let (base, inc) = scores.split_at(self.base);
        if !base.is_empty() && !inc.is_empty() {
            let (best_base, best_inc) = (argmax(base), argmax(inc));
            let own = if class < self.base { best_base } else { self.base + best_inc };
            self.margins.push(ImageMargin { class, margin: inc[best_inc] - base[best_base], right: own == class });
        }
    }

    /// Accuracy in percent of every class, of the images counted; none for a class without any.
    pub fn of_classes(&self) -> Vec<Option<f64>> {
        let counts = self.right.iter().zip(&self.total);
        counts.map(|(right, total)| (*total > 0).then(|| 100.0 * *right as f64 / *total as f64)).collect()
    }

    /// The curve of A_inc over A_base, points (A_base, A_inc) in percent, as a bias moves the border between them: from
    /// the border that answers with no incremental class to that which answers with no base class.
    /// [`SessionAccuracy::area`] is the area below it.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let counted = |totals: &[u64]| totals.iter().filter(|total| **total > 0).count();
        let (base, inc) = self.total.split_at(self.base);
        let sides = [counted(base), counted(inc)];
        let share = |class: usize| {
            let side = sides[usize::from(class >= self.base)];
            100.0 / (self.total[class].max(1) as f64 * side.max(1) as f64)
        };
        let mut margins = self.margins.clone();
        // Equal margins: base images leave their side first, so that a tie is never to our favour.
        margins.sort_unstable_by(|a, b| b.margin.total_cmp(&a.margin).then(a.class.cmp(&b.class)));
        margins.retain(|image| image.right);
        let of_base = margins.iter().filter(|image| image.class < self.base);
        let (mut base, mut inc) = (of_base.map(|image| share(image.class)).sum::<f64>(), 0.0);
        let mut points = Vec::from([(base, inc)]);
        for ImageMargin { class, .. } in margins {
            if class < self.base {
                base -= share(class);
            } else {
                inc += share(class);
            }
            points.push((base, inc));
        }
        points
    }

    /// The area under the curve, 0..1: the sum of A_inc times what A_base loses at each step.
    fn area(&self) -> f64 {
        let points = self.curve();
        points.windows(2).map(|ends| (ends[0].0 - ends[1].0) * ends[0].1).sum::<f64>() / 1e4
    }

    /// The row of a session. Classes without an image say nothing: means are over the others.
    pub fn row(&self, session: usize) -> SessionAccuracy {
        let mean = |range: std::ops::Range<usize>| {
            let measured: Vec<usize> = range.filter(|class| self.total[*class] > 0).collect();
            let shares = measured.iter().map(|&class| self.right[class] as f64 / self.total[class] as f64);
            (!measured.is_empty()).then(|| 100.0 * shares.sum::<f64>() / measured.len() as f64)
        };
        let (base_accuracy, inc) = (mean(0..self.base).unwrap_or(0.0), mean(self.base..self.total.len()));
        let (right, total) = (self.right.iter().sum::<u64>(), self.total.iter().sum::<u64>());
        SessionAccuracy {
            session,
            base: base_accuracy,
            inc,
            hm: inc.map(|inc| harmonic_mean(base_accuracy, inc)),
            top1: 100.0 * right as f64 / total.max(1) as f64,
            area: (!self.margins.is_empty()).then(|| 100.0 * self.area()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_below_their_headings() {
        let first = SessionAccuracy { session: 0, base: 80.0, inc: None, hm: None, top1: 80.126, area: None };
        let last =
            SessionAccuracy { session: 8, base: 60.5, inc: Some(50.0), hm: Some(54.75), top1: 100.0, area: Some(33.3) };
        assert_eq!(first.to_string(), "      0   80.00       -       -   80.13       -");
        assert_eq!(last.to_string(), "      8   60.50   50.00   54.75  100.00   33.30");
        assert_eq!(last.to_string().len(), SessionAccuracy::HEADING.len());
    }

    #[test]
    fn accuracies_are_means_over_classes() {
        let mut measured = AccuracyCounts::new(3, 2);
        for (class, answer) in [(0, 0), (0, 0), (0, 1), (0, 0), (1, 1), (2, 0), (2, 2)] {
            measured.count(class, answer);
        }
        let row = measured.row(1);
        assert!((row.base - 87.5).abs() < 1e-9 && (row.inc.unwrap() - 50.0).abs() < 1e-9);
        assert!((row.top1 - 500.0 / 7.0).abs() < 1e-9);
        assert!((row.hm.unwrap() - 2.0 * 87.5 * 50.0 / 137.5).abs() < 1e-9);
    }

    #[test]
    fn classes_without_images_change_nothing() {
        // Classes 1 and 3 of two on each side have none.
        let (mut sparse, mut dense) = (AccuracyCounts::new(4, 2), AccuracyCounts::new(2, 1));
        for margin in [-1.0, 1.0] {
            sparse.count_scores(0, &[0.0, -9.0, margin, -9.0]);
            sparse.count_scores(2, &[0.0, -9.0, margin, -9.0]);
            dense.count_scores(0, &[0.0, margin]);
            dense.count_scores(1, &[0.0, margin]);
        }
        assert_eq!(sparse.row(1), dense.row(1));
        assert_eq!(sparse.of_classes(), [Some(50.0), None, Some(50.0), None]);
        let mut base_alone = AccuracyCounts::new(2, 1);
        base_alone.count(0, 0);
        assert_eq!((base_alone.row(1).inc, base_alone.row(1).hm), (None, None));
    }

    #[test]
    fn the_area_does_not_depend_on_the_border() {
        // One base class and one incremental one; margins of base images -3, -1, 1, of incremental ones -2, 0, 2.
        let area = |shift: f32| {
            let mut measured = AccuracyCounts::new(2, 1);
            for (class, margins) in [(0, [-3.0, -1.0, 1.0]), (1, [-2.0, 0.0, 2.0])] {
                margins.iter().for_each(|margin| measured.count_scores(class, &[0.0, margin + shift]));
            }
            measured.row(1).area.unwrap()
        };
        // By falling margins: 2 adds to A_inc, 1 takes from A_base, 0 adds, -1 takes, -2 adds, -3 takes. A third of
        // A_base is lost at an A_inc of 1, of 2 and of 3 thirds.
        let expected = 100.0 * (1.0 + 2.0 + 3.0) / 9.0;
        assert!((area(0.0) - expected).abs() < 1e-4 && (area(5.0) - expected).abs() < 1e-4, "{}", area(0.0));
    }

    #[test]
    fn the_curve_goes_from_base_classes_alone_to_incremental_ones_alone() {
        let mut measured = AccuracyCounts::new(2, 1);
        for (class, margins) in [(0, [-1.0, 1.0]), (1, [-2.0, 0.0])] {
            margins.iter().for_each(|margin| measured.count_scores(class, &[0.0, *margin]));
        }
        // By falling margins: 1 takes from A_base, 0 adds to A_inc, -1 takes, -2 adds.
        let expected = [(100.0, 0.0), (50.0, 0.0), (50.0, 50.0), (0.0, 50.0), (0.0, 100.0)];
        assert_eq!(measured.curve(), expected);
        assert_eq!(measured.row(1).area, Some(25.0));
    }
}

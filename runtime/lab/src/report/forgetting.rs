//! The accuracy of every class, right after it was learned and after the last session.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::picture::{
    Area, Axes, DrawError, DrawnPicture, Figure, INK, LegendEntry, MUTED, Mark, SERIES, TEXT, failed, legend,
    legend_height, letters,
};
use super::{BundleReport, Forgetting, session_name};

pub(super) fn pictures(report: &BundleReport) -> Result<Vec<(String, DrawnPicture)>, DrawError> {
    Ok(vec![(
        "forgetting".to_owned(),
        AccuracyBars { classes: &report.forgetting, sessions: report.ways.len() }.drawn()?,
    )])
}

/// For every class a dot at its accuracy after the last session, and a bar from there to that right after it was
/// learned.
struct AccuracyBars<'a> {
    classes: &'a [Forgetting],
    sessions: usize,
}

impl AccuracyBars<'_> {
    /// What there is to be seen.
    fn entries(&self) -> Vec<LegendEntry> {
        let entry = |name: &str, colour, mark| LegendEntry { name: name.into(), colour, mark };
        let mut entries = vec![entry("at the end", INK, Mark::Dot)];
        if self.classes.iter().any(|class| class.last < class.first) {
            entries.push(entry("lost since learned", SERIES[1], Mark::Line));
        }
        if self.classes.iter().any(|class| class.last > class.first) {
            entries.push(entry("gained", SERIES[0], Mark::Line));
        }
        entries
    }
}

impl Figure for AccuracyBars<'_> {
    fn height(&self) -> u32 {
        340 + legend_height(self.entries().len())
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>) -> Result<(), DrawError> {
        let count = self.classes.len() as f64;
        let axes = Axes {
            x: (0.0, count),
            y: (0.0, 100.0),
            x_name: "class, in the order of learning",
            y_name: "accuracy, percent",
            labels: (11, 11),
            decimals: (0, 0),
        };
        let entries = self.entries();
        let mut chart = axes.draw(area, entries.len())?;
        for (index, class) in self.classes.iter().enumerate() {
            let (low, high) = (class.first.min(class.last), class.first.max(class.last));
            let colour = SERIES[usize::from(class.last < class.first)];
            let bar = Rectangle::new([(index as f64 + 0.15, low), (index as f64 + 0.85, high)], colour.filled());
            chart.draw_series([bar]).map_err(failed)?;
            let dot = Circle::new((index as f64 + 0.5, class.last), 2, INK.filled());
            chart.draw_series([dot]).map_err(failed)?;
        }
        let mut before = 0;
        for session in 0..=self.sessions {
            let end = self.classes.iter().filter(|class| class.session <= session).count();
            let edge = [(end as f64, 0.0), (end as f64, 100.0)];
            chart.draw_series(LineSeries::new(edge, MUTED.stroke_width(1))).map_err(failed)?;
            let name = session_name(session);
            let style = letters(TEXT, MUTED, (HPos::Center, VPos::Top));
            let middle = (before + end) as f64 / 2.0;
            chart.draw_series([Text::new(name, (middle, 99.0), style)]).map_err(failed)?;
            before = end;
        }
        legend(area, &entries)
    }
}

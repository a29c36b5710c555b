//! Curves over the sessions, and of new against base accuracy.

use plotters::prelude::*;

use super::picture::{
    Area, Axes, DrawError, DrawnPicture, Figure, LegendEntry, Mark, SERIES, failed, legend, legend_height, line,
};
use super::{BundleReport, TradeOff};
use crate::published::{self, PaperTable};
use crate::system::System;
use orco_benchmark::{SessionAccuracy, harmonic_mean};

/// The systems whose curves are drawn, as far as they were measured: more than these cannot be told apart.
const DRAWN: [System; 7] = [
    System::DEVICE,
    System::PROGRAM,
    System::NC_FSCIL,
    System::RIDGE,
    System::TEEN,
    System::IMPRINT,
    System::FINE_TUNING,
];

pub(super) fn pictures(report: &BundleReport) -> Result<Vec<(String, DrawnPicture)>, DrawError> {
    let mut all = Vec::new();
    if report.ways.len() > 1 {
        all.push(("harmonic-mean".to_owned(), harmonic_means(report).drawn()?));
        if let Some(sessions) = device_accuracies(report) {
            all.push(("sessions".to_owned(), sessions.drawn()?));
        }
    }
    all.push(("trade-off".to_owned(), TradeOffs(&report.trade_off).drawn()?));
    Ok(all)
}

/// A line over the sessions.
struct SessionCurve {
    entry: LegendEntry,
    points: Vec<(f64, f64)>,
    /// Deviations of the points, where a band is drawn.
    deviations: Vec<f64>,
}

/// Lines over the sessions, some with a band of a deviation to both sides.
struct SessionCurves {
    first: usize,
    last: usize,
    y_name: &'static str,
    lines: Vec<SessionCurve>,
}

fn harmonic_means(report: &BundleReport) -> SessionCurves {
    let of = |rows: &[SessionAccuracy]| {
        rows.iter().filter_map(|row| Some((row.session as f64, row.hm?))).collect::<Vec<_>>()
    };
    let measured = DRAWN.iter().zip(SERIES).filter_map(|(system, colour)| {
        let summary = report.results.summary(system.name())?;
        let deviations = summary.deviations.iter().filter_map(|row| row.hm).collect();
        let entry = LegendEntry { name: summary.name.clone(), colour, mark: Mark::Line };
        let deviations = if *system == System::DEVICE { deviations } else { Vec::new() };
        Some(SessionCurve { entry, points: of(&summary.sessions), deviations })
    });
    let mut lines: Vec<_> = measured.collect();
    if report.paper == Some(PaperTable::Cifar100) {
        let hm = published::ORCO_BASE[1..].iter().zip(published::ORCO_INC).map(|(base, inc)| harmonic_mean(*base, inc));
        let points = hm.enumerate().map(|(session, hm)| (session as f64 + 1.0, hm)).collect();
        let entry = LegendEntry { name: "OrCo, as published".into(), colour: SERIES[7], mark: Mark::Dashes };
        lines.push(SessionCurve { entry, points, deviations: Vec::new() });
    }
    SessionCurves { first: 1, last: report.ways.len(), y_name: "harmonic mean, percent", lines }
}

/// Base, new and pooled accuracy of the device.
fn device_accuracies(report: &BundleReport) -> Option<SessionCurves> {
    let summary = report.results.summary(System::DEVICE.name())?;
    let line = |name: &str, colour: usize, of: &dyn Fn(&SessionAccuracy) -> Option<f64>| {
        let points = summary.sessions.iter().filter_map(|row| Some((row.session as f64, of(row)?))).collect();
        let deviations = summary.deviations.iter().filter_map(of).collect();
        let entry = LegendEntry { name: name.into(), colour: SERIES[colour], mark: Mark::Line };
        SessionCurve { entry, points, deviations }
    };
    let mut lines = vec![
        line("base classes", 0, &|row| Some(row.base)),
        line("new classes", 1, &|row| row.inc),
        line("all pictures (top-1)", 2, &|row| Some(row.top1)),
    ];
    if report.paper == Some(PaperTable::Cifar100) {
        let dashed = |name: &str, colour: usize, first: usize, values: &[f64]| {
            let points = values.iter().enumerate().map(|(session, value)| ((session + first) as f64, *value)).collect();
            let entry = LegendEntry { name: name.into(), colour: SERIES[colour], mark: Mark::Dashes };
            SessionCurve { entry, points, deviations: Vec::new() }
        };
        lines.push(dashed("the paper's base", 0, 0, &published::ORCO_BASE));
        lines.push(dashed("the paper's new", 1, 1, &published::ORCO_INC));
    }
    Some(SessionCurves { first: 0, last: report.ways.len(), y_name: "accuracy, percent", lines })
}

impl Figure for SessionCurves {
    fn height(&self) -> u32 {
        320 + legend_height(self.lines.len())
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>) -> Result<(), DrawError> {
        let all = self.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let (low, high) = all.fold((100.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        // Ten percent at least, also where every value is 100, or there is none.
        let (low, high) = (((low / 10.0).floor() * 10.0).clamp(0.0, 90.0), (high / 10.0).ceil() * 10.0);
        let axes = Axes {
            x: (self.first as f64, self.last as f64),
            y: (low, high.clamp(low + 10.0, 100.0)),
            x_name: "session",
            y_name: self.y_name,
            labels: (self.last - self.first + 1, 8),
            decimals: (0, 0),
        };
        let mut chart = axes.draw(area, self.lines.len())?;
        for SessionCurve { entry, points, deviations } in &self.lines {
            let upper = points.iter().zip(deviations).map(|((x, y), deviation)| (*x, y + deviation));
            let lower = points.iter().zip(deviations).map(|((x, y), deviation)| (*x, y - deviation));
            let band: Vec<(f64, f64)> = upper.chain(lower.collect::<Vec<_>>().into_iter().rev()).collect();
            if band.len() > 3 {
                chart.draw_series([Polygon::new(band, entry.colour.mix(0.18).filled())]).map_err(failed)?;
            }
        }
        for SessionCurve { entry, points, .. } in self.lines.iter().rev() {
            line(&mut chart, points, entry, entry.mark == Mark::Line)?;
        }
        let entries: Vec<LegendEntry> = self.lines.iter().map(|line| line.entry.clone()).collect();
        legend(area, &entries)
    }
}

struct TradeOffs<'a>(&'a [TradeOff]);

impl TradeOffs<'_> {
    fn entries(&self) -> Vec<(LegendEntry, &TradeOff)> {
        let find = |system: &System| self.0.iter().find(|curve| curve.system == system.name());
        let drawn = DRAWN.iter().zip(SERIES).filter_map(|(system, colour)| Some((find(system)?, colour)));
        drawn.map(|(of, colour)| (LegendEntry { name: of.system.clone(), colour, mark: Mark::Line }, of)).collect()
    }
}

impl Figure for TradeOffs<'_> {
    fn height(&self) -> u32 {
        340 + legend_height(self.entries().len())
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>) -> Result<(), DrawError> {
        let entries = self.entries();
        let axes = Axes {
            x: (0.0, 100.0),
            y: (0.0, 100.0),
            x_name: "base classes, percent",
            y_name: "new classes, percent",
            labels: (11, 11),
            decimals: (0, 0),
        };
        let mut chart = axes.draw(area, entries.len())?;
        for (entry, curve) in entries.iter().rev() {
            line(&mut chart, &curve.points, entry, false)?;
            chart.draw_series([Circle::new(curve.own, 5, entry.colour.filled())]).map_err(failed)?;
        }
        legend(area, &entries.into_iter().map(|(entry, _)| entry).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_drawn_where_everything_is_right_and_where_nothing_was_measured() {
        for points in [vec![(1.0, 100.0), (2.0, 100.0)], vec![(1.0, 0.0), (2.0, 0.0)], Vec::new()] {
            let entry = LegendEntry { name: "device".into(), colour: SERIES[0], mark: Mark::Line };
            let lines = vec![SessionCurve { entry, points, deviations: Vec::new() }];
            SessionCurves { first: 1, last: 2, y_name: "accuracy, percent", lines }.drawn().unwrap();
        }
    }
}

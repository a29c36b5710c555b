//! Pictures by plotters, each drawn twice: as SVG and as PNG.

use orco_benchmark::spread::decimal;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::png::{self, Bitmap};

/// Why a picture could not be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot draw a picture: {0}")]
pub struct DrawError(pub(super) String);

/// A picture in both forms.
pub(super) struct DrawnPicture {
    pub(super) svg: String,
    pub(super) png: Vec<u8>,
}

/// Width of every picture; a phone shows it at three quarters, or less where several stand in a row.
pub(super) const WIDTH: u32 = 480;
/// Size of letters, of which the SVG's pixels are four fifths.
pub(super) const TEXT: u32 = 18;
/// Letters.
pub(super) const INK: RGBColor = RGBColor(0x1D, 0x20, 0x24);
/// Axes and their numbers.
pub(super) const MUTED: RGBColor = RGBColor(0x5F, 0x66, 0x6E);
/// Lines of the grid.
pub(super) const GRID: RGBColor = RGBColor(0xE1, 0xE5, 0xEA);
/// What is drawn on.
pub(super) const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
/// Colours of series, told apart by colour-blind people, too (Okabe and Ito), darkened for white paper.
pub(super) const SERIES: [RGBColor; 8] = [
    RGBColor(0x00, 0x67, 0xB1),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x8A, 0x63),
    RGBColor(0xB0, 0x4F, 0x8C),
    RGBColor(0x8A, 0x6D, 0x00),
    RGBColor(0x2E, 0x91, 0xC9),
    RGBColor(0x6B, 0x4F, 0xB5),
    RGBColor(0x77, 0x7C, 0x82),
];

/// Something that any backend of plotters can draw.
pub(super) trait Figure {
    /// Height in pixels; the width is [`WIDTH`].
    fn height(&self) -> u32;

    /// Draws everything onto the whole area, which is white.
    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>) -> Result<(), DrawError>;

    /// What becomes of the SVG after it is drawn.
    fn finish(&self, svg: String) -> Result<String, DrawError> {
        Ok(svg)
    }

    /// Draws it in both forms.
    fn drawn(&self) -> Result<DrawnPicture, DrawError> {
        let size = (WIDTH, self.height());
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            self.paint(Area { root: &root, bitmap: false })?;
        }
        let mut pixels = vec![0; size.0 as usize * size.1 as usize * 3];
        {
            let root = Bitmap::new(&mut pixels, size).into_drawing_area();
            self.paint(Area { root: &root, bitmap: true })?;
        }
        Ok(DrawnPicture { svg: self.finish(svg)?, png: png::encode(size, &pixels, ::png::ColorType::Rgb)? })
    }

    /// Draws it onto paper.
    fn paint<B: DrawingBackend>(&self, area: Area<'_, B>) -> Result<(), DrawError> {
        area.root.fill(&PAPER).map_err(failed)?;
        self.draw(&area)?;
        area.root.present().map_err(failed)
    }
}

/// What is drawn on, and whether it is a bitmap.
pub(super) struct Area<'a, B: DrawingBackend> {
    pub(super) root: &'a DrawingArea<B, Shift>,
    pub(super) bitmap: bool,
}

pub(super) fn failed(error: impl std::fmt::Display) -> DrawError {
    DrawError(error.to_string())
}

/// Letters of a size and colour at a place.
pub(super) fn letters(size: u32, colour: RGBColor, at: (HPos, VPos)) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour).pos(Pos::new(at.0, at.1))
}

/// How something is drawn that a legend names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Line,
    Dashes,
    Dot,
    Ring,
}

/// An entry of a legend.
#[derive(Clone)]
pub(super) struct LegendEntry {
    pub(super) name: String,
    pub(super) colour: RGBColor,
    pub(super) mark: Mark,
}

/// Height of a legend of so many entries.
pub(super) fn legend_height(entries: usize) -> u32 {
    entries.div_ceil(2) as u32 * 20 + 6
}

/// Draws a legend of two columns at the foot of an area.
pub(super) fn legend<B: DrawingBackend>(area: &Area<'_, B>, entries: &[LegendEntry]) -> Result<(), DrawError> {
    let (width, height) = area.root.dim_in_pixel();
    let top = height as i32 - legend_height(entries.len()) as i32;
    for (number, entry) in entries.iter().enumerate() {
        let x = 14 + (number % 2) as i32 * (width as i32 / 2);
        let y = top + 10 + (number / 2) as i32 * 20;
        let style = entry.colour.stroke_width(3);
        let pieces: &[(i32, i32)] = match entry.mark {
            Mark::Line => &[(0, 20)],
            Mark::Dashes => &[(0, 7), (13, 20)],
            Mark::Dot | Mark::Ring => &[],
        };
        for (from, to) in pieces {
            let line = PathElement::new(vec![(x + from, y), (x + to, y)], style);
            area.root.draw(&line).map_err(failed)?;
        }
        let circle = match entry.mark {
            Mark::Line | Mark::Dashes => None,
            Mark::Dot => Some(entry.colour.filled()),
            Mark::Ring => Some(entry.colour.stroke_width(1)),
        };
        if let Some(style) = circle {
            area.root.draw(&Circle::new((x + 10, y), 4, style)).map_err(failed)?;
        }
        let text = Text::new(entry.name.clone(), (x + 27, y), letters(TEXT, INK, (HPos::Left, VPos::Center)));
        area.root.draw(&text).map_err(failed)?;
    }
    Ok(())
}

/// A chart with two axes of numbers, and room for a legend below.
pub(super) struct Axes {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
    pub(super) x_name: &'static str,
    pub(super) y_name: &'static str,
    /// How many numbers stand at the axes.
    pub(super) labels: (usize, usize),
    /// Whether numbers have a digit behind the point.
    pub(super) decimals: (usize, usize),
}

/// A chart with linear axes.
pub(super) type Chart<'a, B> =
    ChartContext<'a, B, Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>>;

impl Axes {
    /// Draws axes and grid.
    pub(super) fn draw<'a, B: DrawingBackend>(
        &self,
        area: &Area<'a, B>,
        legend: usize,
    ) -> Result<Chart<'a, B>, DrawError> {
        let mut builder = ChartBuilder::on(area.root);
        builder.margin_top(12).margin_right(22).margin_left(6);
        builder.margin_bottom(if legend > 0 { legend_height(legend) + 4 } else { 4 });
        builder.x_label_area_size(44).y_label_area_size(54);
        let mut chart = builder.build_cartesian_2d(self.x.0..self.x.1, self.y.0..self.y.1).map_err(failed)?;
        let (x_decimals, y_decimals) = self.decimals;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(MUTED)
            .x_labels(self.labels.0)
            .y_labels(self.labels.1)
            .x_desc(self.x_name)
            .y_desc(self.y_name)
            .x_label_formatter(&|x| decimal(*x, x_decimals))
            .y_label_formatter(&|y| decimal(*y, y_decimals))
            .label_style(("sans-serif", TEXT).into_font().color(&MUTED))
            .axis_desc_style(("sans-serif", TEXT).into_font().color(&INK))
            .draw()
            .map_err(failed)?;
        Ok(chart)
    }

    /// Draws the axes, curves in their order, and a legend of them.
    pub(super) fn draw_curves<B: DrawingBackend>(
        self,
        area: &Area<'_, B>,
        curves: Vec<Curve>,
    ) -> Result<(), DrawError> {
        let mut chart = self.draw(area, curves.len())?;
        for Curve { entry, points, dots } in &curves {
            line(&mut chart, points, entry, *dots)?;
        }
        legend(area, &curves.into_iter().map(|curve| curve.entry).collect::<Vec<_>>())
    }
}

/// A line of a chart, with a dot at each of its points if asked, and its entry in the legend.
pub(super) struct Curve {
    pub(super) entry: LegendEntry,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) dots: bool,
}

/// Draws a line, and a dot at each of its points if asked.
pub(super) fn line<B: DrawingBackend>(
    chart: &mut Chart<'_, B>,
    points: &[(f64, f64)],
    entry: &LegendEntry,
    dots: bool,
) -> Result<(), DrawError> {
    let style = entry.colour.stroke_width(2);
    if entry.mark == Mark::Dashes {
        let dashes = DashedLineSeries::new(points.iter().copied(), 6, 5, style);
        chart.draw_series(dashes).map_err(failed)?;
    } else {
        chart.draw_series(LineSeries::new(points.iter().copied(), style)).map_err(failed)?;
    }
    if dots {
        let dots = points.iter().map(|point| Circle::new(*point, 3, entry.colour.filled()));
        chart.draw_series(dots).map_err(failed)?;
    }
    Ok(())
}

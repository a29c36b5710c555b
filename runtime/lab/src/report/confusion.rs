//! Which class was answered with which, session by session.

use ct_codecs::{Base64, Encoder};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::picture::{Area, DrawError, DrawnPicture, Figure, INK, MUTED, SERIES, TEXT, failed, letters};
use super::{BundleReport, Confusion, png, session_name};

/// Where the matrix stands in the picture.
const LEFT: i32 = 54;
const TOP: i32 = 30;
const SIDE: i32 = 410;

pub(super) fn pictures(report: &BundleReport) -> Result<Vec<(String, DrawnPicture)>, DrawError> {
    let classes_after = report.classes_after();
    let drawn = report.confusion.iter().map(|confusion| {
        let classes_after = &classes_after[..=confusion.session];
        Ok((format!("confusion-{}", confusion.session), Matrix { confusion, classes_after }.drawn()?))
    });
    drawn.collect()
}

pub(super) struct Matrix<'a> {
    pub(super) confusion: &'a Confusion,
    /// Classes known after each session.
    pub(super) classes_after: &'a [usize],
}

impl Matrix<'_> {
    fn classes(&self) -> usize {
        self.confusion.counts.len()
    }

    /// Colour and opacity of a cell, none where it is empty: right answers in one colour, wrong ones in another, the
    /// root of their share of the row as opacity, so that single errors are seen.
    fn cell(&self, row: usize, column: usize) -> Option<(RGBColor, f64)> {
        let counts = &self.confusion.counts[row];
        let share = f64::from(counts[column]) / f64::from(counts.iter().sum::<u32>().max(1));
        (counts[column] > 0).then(|| (SERIES[usize::from(row != column)], share.sqrt()))
    }

    fn place(&self, class: usize) -> i32 {
        class as i32 * SIDE / self.classes() as i32
    }
}

impl Figure for Matrix<'_> {
    fn height(&self) -> u32 {
        (TOP + SIDE + 46) as u32
    }

    fn draw<B: DrawingBackend>(&self, area: &Area<'_, B>) -> Result<(), DrawError> {
        let root = area.root;
        if area.bitmap {
            for row in 0..self.classes() {
                for column in 0..self.classes() {
                    let Some((colour, opacity)) = self.cell(row, column) else { continue };
                    let corners = [
                        (LEFT + self.place(column), TOP + self.place(row)),
                        (LEFT + self.place(column + 1) - 1, TOP + self.place(row + 1) - 1),
                    ];
                    root.draw(&Rectangle::new(corners, colour.mix(opacity).filled())).map_err(failed)?;
                }
            }
        }
        let frame = Rectangle::new([(LEFT, TOP), (LEFT + SIDE, TOP + SIDE)], MUTED.stroke_width(1));
        root.draw(&frame).map_err(failed)?;
        for &end in &self.classes_after[..self.classes_after.len() - 1] {
            let at = self.place(end);
            let lines =
                [vec![(LEFT + at, TOP), (LEFT + at, TOP + SIDE)], vec![(LEFT, TOP + at), (LEFT + SIDE, TOP + at)]];
            for line in lines {
                root.draw(&PathElement::new(line, MUTED.stroke_width(1))).map_err(failed)?;
            }
        }
        let mut before = 0;
        for (session, &end) in self.classes_after.iter().enumerate() {
            let middle = (self.place(before) + self.place(end)) / 2;
            let name = session_name(session);
            let left =
                Text::new(name.clone(), (LEFT - 7, TOP + middle), letters(TEXT, MUTED, (HPos::Right, VPos::Center)));
            let below = (LEFT + middle, TOP + SIDE + 6);
            let below = Text::new(name, below, letters(TEXT, MUTED, (HPos::Center, VPos::Top)));
            root.draw(&left).map_err(failed)?;
            root.draw(&below).map_err(failed)?;
            before = end;
        }
        let title = format!("after session {}: class of the picture", self.confusion.session);
        let title = Text::new(title, (LEFT, TOP - 8), letters(TEXT, INK, (HPos::Left, VPos::Bottom)));
        root.draw(&title).map_err(failed)?;
        let foot = (LEFT + SIDE, TOP + SIDE + 42);
        let foot = Text::new("class of the answer", foot, letters(TEXT, INK, (HPos::Right, VPos::Bottom)));
        root.draw(&foot).map_err(failed)
    }

    /// Puts the cells in as one small image: thousands of rectangles would make the page heavy.
    fn finish(&self, svg: String) -> Result<String, DrawError> {
        let classes = self.classes();
        let mut pixels = Vec::with_capacity(4 * classes * classes);
        for row in 0..classes {
            for column in 0..classes {
                let (RGBColor(red, green, blue), opacity) = self.cell(row, column).unwrap_or((INK, 0.0));
                pixels.extend([red, green, blue, (255.0 * opacity).round() as u8]);
            }
        }
        let image = png::encode((classes as u32, classes as u32), &pixels, ::png::ColorType::Rgba)?;
        let image = Base64::encode_to_string(image).map_err(failed)?;
        let element = format!(
            "<image x=\"{LEFT}\" y=\"{TOP}\" width=\"{SIDE}\" height=\"{SIDE}\" preserveAspectRatio=\"none\" \
             style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{image}\"/>\n"
        );
        // Above the paper, which is drawn first, and below everything else.
        let paper = svg.find("<rect").and_then(|start| svg[start..].find("/>").map(|end| start + end + 2));
        let after = paper.ok_or_else(|| failed("the picture has no paper"))?;
        Ok(format!("{}\n{element}{}", &svg[..after], &svg[after..]))
    }
}

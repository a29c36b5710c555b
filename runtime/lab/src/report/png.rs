//! PNG: plotters' bitmap with letters that are the same on every machine, and the file's format.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind};

use super::picture::{DrawError, failed};

const WEIGHT: FontWeight = FontWeight::Regular;
const HEIGHT: RasterHeight = RasterHeight::Size16;

/// A bitmap whose letters come from a font that is compiled in, all of one size.
pub(super) struct Bitmap<'a>(BitMapBackend<'a>);

impl<'a> Bitmap<'a> {
    /// On `[height, width, 3]` bytes.
    pub(super) fn new(pixels: &'a mut [u8], size: (u32, u32)) -> Self {
        Self(BitMapBackend::with_buffer(pixels, size))
    }
}

type Done<B> = Result<(), DrawingErrorKind<<B as DrawingBackend>::ErrorType>>;

impl<'a> DrawingBackend for Bitmap<'a> {
    type ErrorType = <BitMapBackend<'a> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.0.get_size()
    }

    fn ensure_prepared(&mut self) -> Done<Self> {
        self.0.ensure_prepared()
    }

    fn present(&mut self) -> Done<Self> {
        self.0.present()
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Done<Self> {
        self.0.draw_pixel(point, color)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Done<Self> {
        self.0.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Done<Self> {
        self.0.draw_rect(upper_left, bottom_right, style, fill)
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Done<Self> {
        let (width, height) = (advance(text), HEIGHT.val() as i32);
        let left = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => -width / 2,
            HPos::Right => -width,
        };
        let top = match style.anchor().v_pos {
            VPos::Top => 0,
            VPos::Center => -height / 2,
            VPos::Bottom => -height,
        };
        let (turn, colour) = (style.transform(), style.color());
        for (number, letter) in text.chars().enumerate() {
            let raster = get_raster(letter, WEIGHT, HEIGHT).or_else(|| get_raster('?', WEIGHT, HEIGHT));
            let rows = raster.iter().flat_map(|raster| raster.rows()).enumerate();
            for (y, row) in rows {
                for (x, ink) in row.iter().enumerate().filter(|(_, ink)| **ink > 0) {
                    let x = left + advance("-") * number as i32 + x as i32;
                    let (x, y) = turn.transform(x, top + y as i32);
                    let alpha = colour.alpha * f64::from(*ink) / 255.0;
                    self.0.draw_pixel((at.0 + x, at.1 + y), BackendColor { alpha, rgb: colour.rgb })?;
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        _: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Self::ErrorType>> {
        Ok((advance(text) as u32, HEIGHT.val() as u32))
    }
}

/// Width of a text.
fn advance(text: &str) -> i32 {
    (text.chars().count() * get_raster_width(WEIGHT, HEIGHT)) as i32
}

/// A PNG file of bytes, three or four to a pixel.
pub(super) fn encode(size: (u32, u32), pixels: &[u8], colour: png::ColorType) -> Result<Vec<u8>, DrawError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::High);
    encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels)).map_err(failed)?;
    Ok(bytes)
}

//! QR codes for a terminal or a file.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

/// How a QR code is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QrColours {
    /// Black on white, by escape sequences of a terminal: some phones read no other.
    BlackOnWhite,
    /// As the terminal or the file shows text; drawn for light text on a dark ground.
    OfText,
}

/// A QR code in half blocks.
///
/// # Errors
/// If the text is too long for one.
pub(super) fn qr_code(text: &str, colours: QrColours) -> Result<String> {
    let is_black_on_white = colours == QrColours::BlackOnWhite;
    let code = QrCode::with_error_correction_level(text, EcLevel::L).context("the address does not fit a QR code")?;
    let drawn = code
        .render::<Dense1x2>()
        .dark_color(if is_black_on_white { Dense1x2::Dark } else { Dense1x2::Light })
        .light_color(if is_black_on_white { Dense1x2::Light } else { Dense1x2::Dark })
        .quiet_zone(true)
        .build();
    if !is_black_on_white {
        return Ok(drawn + "\n");
    }
    Ok(drawn.lines().fold(String::new(), |mut text, line| {
        // Dark parts are drawn, light ones are the background.
        let _ = writeln!(text, "\x1b[30;107m{line}\x1b[0m");
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_black_on_white_and_has_a_margin() {
        let url = format!("https://192.168.1.7:8443/#token={}", "0".repeat(64));
        let [coloured, plain] =
            [QrColours::BlackOnWhite, QrColours::OfText].map(|colours| qr_code(&url, colours).unwrap());
        // Black letters on white, and white letters on a black terminal.
        let coloured = coloured.lines().map(|line| line.strip_prefix("\x1b[30;107m")?.strip_suffix("\x1b[0m"));
        let coloured = coloured.collect::<Option<Vec<_>>>().unwrap();
        let plain: Vec<&str> = plain.lines().collect();
        let code = QrCode::with_error_correction_level(&url, EcLevel::L).unwrap();
        let expected = code.render::<char>().dark_color('#').light_color(' ').module_dimensions(1, 1).build();
        let expected: Vec<&str> = expected.lines().collect();
        for (drawn, ink, paper) in [(&coloured, '#', ' '), (&plain, ' ', '#')] {
            assert_eq!(modules(drawn, ink, paper)[..expected.len()], expected);
        }
        assert!(expected[0].trim().is_empty() && expected[3].trim().is_empty(), "a margin of four");
        assert!(plain.len() <= 40 && plain[0].chars().count() <= 80, "it fits a terminal");
    }

    /// The rows of a code that was drawn in half blocks.
    fn modules(drawn: &[&str], ink: char, paper: char) -> Vec<String> {
        let row = |line: &str, inked: [char; 2]| {
            line.chars().map(|block| if inked.contains(&block) { ink } else { paper }).collect::<String>()
        };
        drawn
            .iter()
            .flat_map(|line| [row(line, ['\u{2588}', '\u{2580}']), row(line, ['\u{2588}', '\u{2584}'])])
            .collect()
    }
}

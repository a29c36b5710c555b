//! A table under the service's camera, as a person sees it on the page: shown empty, a hand that puts something down,
//! lamps that are switched, and a camera that is pushed.

use std::io::Cursor;
use std::time::Duration;

use image::{ImageFormat, Rgba, RgbaImage};
use orco_render::Class;
use tempfile::TempDir;
use thirtyfour::error::WebDriverResult;

use super::chromium::{self, Browser, DESK, Driver};
use crate::scene::{Camera, things};
use crate::support::service::Service;
use crate::support::{orco, workspace};

#[path = "../../../../camera/tests/support/mod.rs"]
mod fake;
use fake::FakeCamera;

/// Time between two frames: they come half as often as the service looks at one.
const EVERY: Duration = Duration::from_millis(200);
/// Frames of a film, which is played over and over.
const FRAMES: usize = 6;
/// Left edges of things at the two sides of the table.
const LEFT: i64 = 20;
const RIGHT: i64 = 310;

fn jpeg(frame: &image::RgbImage) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    frame.write_to(&mut file, ImageFormat::Jpeg).unwrap();
    file.into_inner()
}

/// A film of things that lie still.
fn still(table: &mut Camera, things: &[(&RgbaImage, i64)]) -> Vec<Vec<u8>> {
    (0..FRAMES).map(|_| jpeg(&table.take(things))).collect()
}

/// A forearm.
fn hand() -> RgbaImage {
    let is_arm = |x: u32, y: u32| y.abs_diff(60) < 45 && (x >= 45 || (45 - x).pow(2) + y.abs_diff(60).pow(2) < 45 * 45);
    RgbaImage::from_fn(480, 120, |x, y| if is_arm(x, y) { Rgba([206, 160, 132, 255]) } else { Rgba([0; 4]) })
}

/// A film of a hand that brings a thing from the right.
fn brought(table: &mut Camera, thing: &RgbaImage) -> Vec<Vec<u8>> {
    let hand = hand();
    (0..FRAMES)
        .map(|step| RIGHT - 45 * step as i64)
        .map(|at| jpeg(&table.take(&[(thing, at), (&hand, at + 110)])))
        .collect()
}

/// JavaScript that tests whether the page shows so many boxes.
fn boxes(count: usize) -> String {
    format!("document.querySelectorAll('#boxes button').length === {count}")
}

/// JavaScript that tests what is answered.
fn answer(text: &str) -> String {
    format!("document.getElementById('answer').textContent === '{text}'")
}

async fn teach(browser: &Browser, camera: &FakeCamera, table: &mut Camera, ducks: &[RgbaImage]) -> WebDriverResult<()> {
    browser.write("label", "duck").await?;
    for (number, duck) in ducks.iter().enumerate() {
        // Each lies elsewhere, and the place is seen empty in between.
        camera.play(still(table, &[]));
        browser.until(&answer("empty")).await?;
        camera.play(still(table, &[(duck, LEFT + 30 * number as i64)]));
        browser.until(&boxes(1)).await?;
        browser.click("shoot").await?;
        browser.until(&format!("document.querySelectorAll('#shots li').length === {}", number + 1)).await?;
    }
    browser.click("learn").await?;
    browser.until("document.getElementById('learned').innerText.includes('duck')").await
}

#[test]
fn a_table_is_shown_taught_lit_and_pushed() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let mut table = Camera::over_tablecloth();
    let camera = FakeCamera::start(still(&mut table, &[]), EVERY);
    let bundle = workspace().join("models/everyday");
    let arguments = ["--engine", "rten", "serve", "--listen", "127.0.0.1:0", "--camera", &camera.url()];
    let service = Service::of(orco(&bundle, &folder.path().join("state"), &arguments));
    let ducks = things(Class::RubberDuck, 6);
    chromium::run(async {
        let browser = Browser::open(&driver, &service, DESK).await?;
        browser.until("document.getElementById('answer').textContent !== '–'").await?;
        let is_shown = |id: &str| format!("document.getElementById('{id}').checkVisibility()");
        browser.until(&is_shown("first-scene")).await?;
        browser.keep("table-first-steps").await?;
        browser.click("first-scene").await?;
        browser.until(&answer("empty")).await?;
        browser.until(&format!("{} && !{}", is_shown("first-steps"), is_shown("first-empty"))).await?;

        camera.play(brought(&mut table, &ducks[0]));
        browser.until("document.querySelectorAll('#boxes button').length > 0").await?;
        browser.keep("table-hand").await?;
        teach(&browser, &camera, &mut table, &ducks[..5]).await?;

        camera.play(still(&mut table, &[(&ducks[5], RIGHT)]));
        let is_right = "parseFloat(document.querySelector('#boxes button').style.left) > \
                        document.getElementById('view').clientWidth / 2";
        browser.until(&format!("{} && {} && {is_right}", answer("duck"), boxes(1))).await?;
        browser.keep("table-duck").await?;

        // A lamp is switched on and off: the table is still empty.
        let lamps = [0.8, 0.9, 1.0, 1.1, 1.2];
        camera.play(lamps.iter().flat_map(|light| vec![jpeg(&table.take_in_light(&[], *light)); 2]).collect());
        browser.until(&answer("empty")).await?;
        for _ in 0..15 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(browser.text("answer").await?, "empty");
        }

        camera.play(still(&mut table.pushed(15), &[]));
        browser.until("document.getElementById('camera-error').textContent.includes('moved')").await?;
        browser.keep("table-pushed").await?;
        camera.play(still(&mut table, &[]));
        browser.until(&answer("empty")).await?;
        browser.close().await
    });
}

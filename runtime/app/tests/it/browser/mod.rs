//! The page in headless Chromium, with a camera that plays photographs.
//!
//! Chromium and chromedriver are Debian's (`apt-get install chromium chromium-driver`), which `cargo xtask test
//! --install` sees to; where they are not there, these tests are left out and say so. With ORCO_HEAVY and
//! ORCO_SCREENSHOTS=FOLDER, every view is kept there as a picture.

mod camera;
mod chromium;
mod first_try;
mod table;
mod tabs;
mod transfer;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use orco_trials::heavy;
use serde_json::{Value, json};
use tempfile::TempDir;
use thirtyfour::error::WebDriverResult;

use crate::browser::camera::Film;
use crate::browser::chromium::{Browser, DESK, Driver, PHONE, ViewOptions};
use crate::support::service::Service;
use crate::support::shots;

/// The tabs, in their order.
const TABS: [&str; 5] = ["teach", "review", "knows", "history", "settings"];

/// How many frames the page says are in the inbox.
const INBOX_COUNT: &str = "parseInt(document.getElementById('inbox-count').textContent)";

/// Sends the five pictures of a class to a path of the service; returns the status of each answer.
fn send_pictures(service: &Service, class: &str, path: &str) -> [u16; 5] {
    [1, 2, 3, 4, 5].map(|number| {
        let picture = fs::read(shots("learn", class).join(format!("{number}.jpg"))).unwrap();
        service.ask("POST", path, "image/jpeg", &picture).0
    })
}

/// Has the service classify the pictures of a class, as frames for the inbox.
fn offer_frames(service: &Service, class: &str) {
    assert_eq!(send_pictures(service, class, "/api/v1/classify?inbox=true"), [200; 5]);
}

/// Sends the pictures of a class as its shots; some may be held already.
fn hold_shots(service: &Service, class: &str) {
    send_pictures(service, class, &format!("/api/v1/shots/{class}?anyway=true"));
}

/// Shows five different shots of `label`, held as people hold the button, and learns them.
async fn teach(browser: &Browser, label: &str) -> WebDriverResult<()> {
    browser.start_camera().await?;
    browser.write("label", label).await?;
    browser.hold_until("shoot", "document.querySelectorAll('#shots li').length >= 5").await?;
    // Sentences that speak of as many shots as lie there, more than five if the button was held longer.
    let sentences = "document.getElementById('sufficiency').textContent";
    browser
        .until(&format!("{sentences}.includes(`of ${{document.querySelectorAll('#shots li').length}} rec`)"))
        .await?;
    browser.keep(&format!("shots-of-{label}")).await?;
    browser.click("learn").await?;
    browser
        .until(&format!("[...document.querySelectorAll('#learned li')].some(i => i.innerText.includes('{label}'))"))
        .await?;
    browser.until("document.querySelector('#report li') !== null && document.getElementById('job').hidden").await
}

/// How often each label is the answer while the camera plays its film once.
async fn answers(browser: &Browser) -> WebDriverResult<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for _ in 0..14 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        *counts.entry(browser.text("answer").await?).or_default() += 1;
    }
    Ok(counts)
}

fn most_frequent(counts: &BTreeMap<String, usize>) -> &str {
    counts.iter().max_by_key(|(_, count)| **count).map_or("", |(label, _)| label)
}

#[test]
fn things_are_taught_recognised_undone_and_still_there_after_a_reload() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("everyday", folder.path());
    chromium::run(async {
        for label in ["rubber-duck", "cactus"] {
            let film = Film::of(&shots("learn", label), folder.path());
            let browser = Browser::open(&driver, &service, ViewOptions { camera: Some(&film), ..DESK }).await?;
            teach(&browser, label).await?;
            browser.close().await?;
        }
        for label in ["rubber-duck", "cactus"] {
            let film = Film::of(&shots("try", label), folder.path());
            let browser = Browser::open(&driver, &service, ViewOptions { camera: Some(&film), ..PHONE }).await?;
            browser.start_camera().await?;
            let counts = answers(&browser).await?;
            browser.keep(&format!("recognised-{label}")).await?;
            assert_eq!(most_frequent(&counts), label, "photographs that were not learned: {counts:?}");
            browser.close().await?;
        }
        let browser = Browser::open(&driver, &service, DESK).await?;
        let learned =
            "[...document.querySelectorAll('#learned li > span:first-of-type')].map(i => i.firstChild.data).join()";
        browser.until(&format!("{learned} === 'rubber-duck,cactus'")).await?;
        browser.show_tab("history").await?;
        browser.click("undo").await?;
        browser.until(&format!("{learned} === 'rubber-duck'")).await?;
        // The change and its undo are one line.
        browser.until("document.querySelector('#history .undone')?.textContent === 'learned cactus'").await?;
        assert_eq!(browser.value("document.querySelectorAll('#history > li').length").await?, 3);
        browser.reload().await?;
        browser.until(&format!("{learned} === 'rubber-duck'")).await?;
        // The power goes, and comes back.
        drop(service);
        let service = Service::start("everyday", folder.path());
        browser.visit(&service.url).await?;
        browser.until(&format!("{learned} === 'rubber-duck'")).await?;
        browser.close().await
    });
}

#[test]
fn a_bad_shot_is_refused_in_words_and_can_be_taken_anyway() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    let dark = folder.path().join("dark.png");
    let picture = image::open(shots("learn", "mug").join("1.jpg")).unwrap().to_rgb8();
    let darker = image::RgbImage::from_fn(picture.width(), picture.height(), |x, y| {
        picture.get_pixel(x, y).0.map(|value| value / 20).into()
    });
    darker.save(&dark).unwrap();
    chromium::run(async {
        let browser = Browser::open(&driver, &service, DESK).await?;
        // What cannot be read is said, and leaves no answer to another picture.
        browser.choose_file("file", &shots("try", "mug").join("1.jpg")).await?;
        browser.until("document.getElementById('sure').textContent !== ''").await?;
        let broken = folder.path().join("broken.jpg");
        fs::write(&broken, b"no picture").unwrap();
        browser.choose_file("file", &broken).await?;
        browser.until("document.getElementById('error').textContent !== ''").await?;
        assert_eq!(browser.text("answer").await?, "–");
        // A file that is dropped on the page is chosen, too.
        let dropped = "((files) => { files.items.add(new File(['no picture'], 'dropped.jpg')); \
            document.dispatchEvent(new DragEvent('drop', { dataTransfer: files })); return true; })\
            (new DataTransfer())";
        browser.value(dropped).await?;
        browser.until("document.getElementById('error').textContent.startsWith('dropped.jpg: ')").await?;
        browser.choose_file("file", &dark).await?;
        browser.write("label", "cup").await?;
        let hint = "document.getElementById('hint').textContent.includes('known from the start')";
        browser.until(hint).await?;
        browser.write("label", "mug").await?;
        browser.until(&format!("!{hint}")).await?;
        browser.click("shoot").await?;
        browser
            .until("document.getElementById('shot-warning').textContent.startsWith('dark.png: Not taken: too dark.')")
            .await?;
        let taken = "document.querySelectorAll('#shots li').length";
        assert_eq!(browser.value(taken).await?, 0);
        browser.keep("refused").await?;
        browser.click("anyway").await?;
        browser.until(&format!("{taken} === 1")).await?;
        browser.close().await
    });
}

#[test]
fn what_is_pressed_twice_is_done_once_and_what_is_typed_stays() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    offer_frames(&service, "rubber-duck");
    offer_frames(&service, "traffic-cone");
    chromium::run(async {
        let browser = Browser::open(&driver, &service, DESK).await?;
        browser.show_tab("review").await?;
        browser.until("document.querySelectorAll('#inbox-groups > li').length > 0").await?;
        let groups = service.json("GET", "/api/v1/inbox", &Value::Null)["groups"].clone();
        let frames = groups[0]["frames"].as_array().unwrap();
        assert!(frames.len() > 2, "{groups}");
        let name = "#inbox-groups [data-kind=name]";
        browser.send_keys(name, "dck").await?;
        browser.value(&format!("document.querySelector('{name}').setSelectionRange(1, 1)")).await?;
        // Somebody else lets the group's first picture go, and others come in.
        let before = browser.value(INBOX_COUNT).await?.as_u64().unwrap();
        let body = json!({ "ids": [frames[0]["id"]] }).to_string();
        assert_eq!(service.ask("POST", "/api/v1/inbox/dismiss", "application/json", body.as_bytes()).0, 204);
        browser.until(&format!("{INBOX_COUNT} === {}", before - 1)).await?;
        offer_frames(&service, "cactus");
        browser.until(&format!("{INBOX_COUNT} >= {before}")).await?;
        browser.send_keys(":focus", "u").await?;
        assert_eq!(browser.value("document.activeElement.value").await?, "duck");

        let ticked =
            browser.value("document.querySelectorAll('#inbox-groups > li:has(:focus) :checked').length").await?;
        // The group is still drawn with the picture that is gone.
        let taken = ticked.as_u64().unwrap() - 1;
        assert!(taken > 0);
        let twice = |button: &str| format!("[1, 2].map(() => document.querySelector('{button}').click())");
        browser.value(&twice("#inbox-groups > li:has(:focus) [data-kind=teach]")).await?;
        browser.until("document.getElementById('label').value === 'duck'").await?;
        browser.until(&format!("document.querySelectorAll('#shots li').length === {taken}")).await?;

        what_is_touched_in_the_inbox_stays(&browser, &service).await?;

        browser.value(&twice("#learn")).await?;
        let learned =
            "[...document.querySelectorAll('#learned li > span:first-of-type')].map(i => i.firstChild.data).join()";
        browser.until(&format!("{learned} === 'duck'")).await?;

        hold_shots(&service, "cactus");
        service.json("POST", "/api/v1/learn", &json!({ "label": "cactus" }));
        browser.until(&format!("{learned} === 'duck,cactus'")).await?;
        browser.value(&twice("#undo")).await?;
        browser.until(&format!("{learned} === 'duck' && !document.getElementById('undo').disabled")).await?;
        assert_eq!(service.json("GET", "/api/v1/status", &Value::Null)["jobs"], json!([]), "nothing else is done");
        assert_eq!(browser.value(learned).await?, "duck");
        assert_eq!(browser.text("error").await?, "");

        focus_moves_on_from_a_removed_shot(&browser, &service).await?;
        browser.close().await
    });
}

/// A tick under a finger stays until it is let go, and the second half of a double click does not reach the group that
/// has moved up.
async fn what_is_touched_in_the_inbox_stays(browser: &Browser, service: &Service) -> WebDriverResult<()> {
    let tell = |event: &str| format!("window.tick.dispatchEvent(new PointerEvent('{event}', {{ bubbles: true }}))");
    // At once: the page may be drawing it anew just now.
    let tick = "window.tick = document.querySelector('#inbox-groups [data-kind=box]')";
    browser.value(&format!("({tick}, {})", tell("pointerdown"))).await?;
    let before = browser.value(INBOX_COUNT).await?.as_u64().unwrap();
    offer_frames(service, "dumbbell");
    browser.until(&format!("{INBOX_COUNT} > {before}")).await?;
    assert_eq!(browser.value("window.tick.isConnected").await?, true);
    browser.value(&tell("pointerup")).await?;
    browser.until("!window.tick.isConnected").await?;

    // The second half of a double click does not reach the group that has moved up.
    let inbox = || service.json("GET", "/api/v1/status", &Value::Null)["inbox"].as_u64().unwrap();
    let all = inbox();
    browser.until(&format!("{INBOX_COUNT} === {all}")).await?;
    let dismiss = "document.querySelector('#inbox-groups [data-kind=dismiss]').click()";
    let first = "document.querySelectorAll('#inbox-groups > li:first-child :checked').length";
    // A page's timers run in their order: the second click comes before the buttons can be pressed again.
    let clicks = format!("[{first}, {dismiss}, setTimeout(() => {{ {dismiss}; window.second = true; }}, 400)][0]");
    let gone = browser.value(&clicks).await?.as_u64().unwrap();
    assert!(gone < all, "{gone} of {all}");
    browser.until("window.second").await?;
    browser.until("!document.querySelector('#inbox-groups [data-kind=dismiss]').disabled").await?;
    assert_eq!(inbox(), all - gone);
    Ok(())
}

/// The next shot takes the place of one that is removed, and gets its focus.
async fn focus_moves_on_from_a_removed_shot(browser: &Browser, service: &Service) -> WebDriverResult<()> {
    hold_shots(service, "dumbbell");
    browser.show_tab("teach").await?;
    browser.write("label", "dumbbell").await?;
    let held = "document.querySelectorAll('#shots li').length";
    browser.until(&format!("{held} === 5")).await?;
    let remove = "document.querySelector('#shots button').click()";
    let clicks = format!("({remove}, setTimeout(() => {{ {remove}; window.third = true; }}, 400), true)");
    browser.value(&clicks).await?;
    browser.until("window.third && !document.querySelector('#shots button').disabled").await?;
    assert_eq!(browser.value(held).await?, 4);
    browser.press("#shots button", "\u{e007}").await?;
    browser.until(&format!("{held} === 3 && document.activeElement.matches('#shots li:first-child button')")).await?;
    // Whoever has gone elsewhere meanwhile stays there.
    browser.value(&format!("({remove}, document.getElementById('label').focus(), true)")).await?;
    browser.until(&format!("{held} === 2 && !document.querySelector('#shots button').disabled")).await?;
    assert_eq!(browser.value("document.activeElement.id").await?, "label");
    browser.write("label", "an empty one").await?;
    browser.until("document.getElementById('waiting-list').textContent.includes('dumbbell')").await?;
    browser.press("#waiting-list button", "\u{e007}").await?;
    browser.until("document.activeElement.id === 'label' && document.activeElement.value !== 'an empty one'").await
}

/// Serves one page to whoever asks, at a port that is free, until the test program ends.
fn page_of_another_site() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A browser also connects and says nothing.
            std::thread::spawn(move || {
                let mut stream = stream?;
                let mut head = [0; 4096];
                let _ = stream.read(&mut head)?;
                let head =
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: 7\r\n\r\n";
                write!(stream, "{head}<p>Hi\r\n")
            });
        }
    });
    port
}

#[test]
fn a_page_of_another_site_cannot_tell_what_the_service_knows() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    let picture = fs::read(shots("learn", "mug").join("1.jpg")).unwrap();
    let (status, shot) = service.ask("POST", "/api/v1/shots/mug?anyway=true", "image/jpeg", &picture);
    assert_eq!(status, 200);
    let shot: Value = serde_json::from_slice(&shot).unwrap();
    let url = format!("{}/api/v1/shots/mug/{}", service.url.trim_end_matches('/'), shot["id"].as_str().unwrap());
    let load = format!(
        "(window.seen = '', (i => {{ i.onload = () => window.seen = 'a picture'; i.onerror = () => window.seen = \
         'nothing'; i.src = '{url}' }})(new Image()), true)"
    );
    let port = page_of_another_site();
    chromium::run(async {
        let browser = Browser::open(&driver, &service, DESK).await?;
        // Another site, another port of the same host, and the service's own page.
        let (other, same_host) = (format!("http://127.0.0.1:{port}/"), format!("http://localhost:{port}/"));
        for (page, seen) in [(&other, "nothing"), (&same_host, "nothing"), (&service.url, "a picture")] {
            browser.visit(page).await?;
            browser.value(&load).await?;
            browser.until("window.seen !== ''").await?;
            assert_eq!(browser.value("window.seen").await?, seen, "{page}");
        }
        // A link may open the page itself.
        browser.visit(&other).await?;
        browser.value(&format!("(location.href = '{}', true)", service.url)).await?;
        browser.until("document.getElementById('bundle')?.textContent === 'cifar100-edge'").await?;
        browser.close().await
    });
}

#[test]
fn every_view_can_be_read_by_everyone() {
    let Some(driver) = Driver::start() else { return };
    let Some(axe) = chromium::axe() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    let film = Film::of(&shots("learn", "mug"), folder.path());
    chromium::run(async {
        let browser = Browser::open(&driver, &service, ViewOptions { camera: Some(&film), ..DESK }).await?;
        teach(&browser, "mug").await?;
        browser.close().await?;
        for (size, base) in [("desk", DESK), ("phone", PHONE)] {
            for (theme, dark) in [("light", false), ("dark", true)] {
                for language in ["en", "de"] {
                    // Every second view has each size, theme and language with each of the others.
                    if !heavy() && [size == "desk", dark, language == "de"].iter().filter(|is| **is).count() % 2 == 0 {
                        continue;
                    }
                    let view = format!("{size}-{theme}-{language}");
                    let options = ViewOptions { camera: Some(&film), dark, language, ..base };
                    let browser = Browser::open(&driver, &service, options).await?;
                    browser.until("document.getElementById('learned').innerText.includes('mug')").await?;
                    browser.start_camera().await?;
                    browser.write("label", "Tasse").await?;
                    browser.hold_until("shoot", "document.querySelectorAll('#shots li').length >= 2").await?;
                    for tab in TABS {
                        let view = format!("{view}-{tab}");
                        browser.show_tab(tab).await?;
                        browser.keep(&view).await?;
                        // On a phone, tabs have what they have on a desk.
                        if heavy() || size == "desk" || tab == TABS[0] {
                            browser.check(&axe, &view).await?;
                        }
                        let width = browser.value("document.documentElement.scrollWidth").await?;
                        assert!(width.as_u64().unwrap() <= u64::from(options.size.0), "{view} is {width} pixels wide");
                    }
                    browser.show_tab("knows").await?;
                    browser.click_css("#learned li button").await?;
                    browser.check(&axe, &format!("{view}, a dialogue")).await?;
                    browser.keep(&format!("{view}-dialogue")).await?;
                    browser.click("dialog-no").await?;
                    browser.close().await?;
                }
            }
        }
        Ok(())
    });
}

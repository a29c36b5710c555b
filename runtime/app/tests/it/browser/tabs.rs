//! The tabs, and what stands on them: with the keyboard alone, after a reload, on a wide screen and on a small phone.

use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::camera::Film;
use super::chromium::{self, Browser, DESK, Driver, PHONE, ViewOptions};
use super::teach;
use crate::support::service::Service;
use crate::support::shots;

// Keys, as WebDriver writes them.
const RIGHT: &str = "\u{e014}";
const LEFT: &str = "\u{e012}";
const END: &str = "\u{e010}";
const HOME: &str = "\u{e011}";

/// JavaScript that tests whether a tab is chosen, has the focus, and shows its panel alone.
fn is_shown(tab: &str) -> String {
    format!(
        "document.activeElement.id === 'tab-{tab}' && document.activeElement.ariaSelected === 'true' && \
         [...document.querySelectorAll('[role=tabpanel]')].filter(panel => !panel.hidden).map(panel => panel.id).join() \
         === 'panel-{tab}'"
    )
}

/// JavaScript that counts the pictures of the inbox.
const WAITING: &str = "(parseInt(document.getElementById('badge-review').textContent) || 0)";

#[test]
fn tabs_follow_keys_and_outlast_a_reload_and_a_wide_screen_needs_fewer() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    chromium::run(async {
        let browser = Browser::open(&driver, &service, DESK).await?;
        for (key, tab) in [(RIGHT, "review"), (END, "settings"), (RIGHT, "teach"), (LEFT, "settings"), (HOME, "teach")]
        {
            browser.send_keys("#tabs [aria-selected=true]", key).await?;
            browser.until(&is_shown(tab)).await?;
        }
        browser.show_tab("history").await?;
        browser.reload().await?;
        browser.until("!document.getElementById('panel-history').hidden").await?;
        browser.close().await?;

        let wide = ViewOptions { size: (1920, 1080), ..DESK };
        let browser = Browser::open(&driver, &service, wide).await?;
        for panel in ["teach", "knows", "history"] {
            browser.until(&format!("document.getElementById('panel-{panel}').offsetParent !== null")).await?;
        }
        browser.until("document.getElementById('tab-knows').offsetParent === null").await?;
        browser.show_tab("settings").await?;
        browser.until("document.getElementById('panel-teach').hidden").await?;
        browser.close().await
    });
}

#[test]
fn a_phone_on_its_side_shows_more_than_the_picture() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    chromium::run(async {
        let browser = Browser::open(&driver, &service, ViewOptions { size: (740, 360), ..PHONE }).await?;
        browser.show_tab("knows").await?;
        browser.value("(document.querySelector('#base').parentElement.open = true)").await?;
        browser.value("(scrollTo(0, document.documentElement.scrollHeight), true)").await?;
        browser.until("document.querySelector('.look').getBoundingClientRect().bottom <= 0").await?;
        browser.close().await
    });
}

#[test]
fn long_names_and_large_letters_leave_a_phone_all_its_tabs() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    chromium::run(async {
        let browser = Browser::open(&driver, &service, ViewOptions { language: "de", ..PHONE }).await?;
        for id in ["answer", "shot-note", "transfer-state"] {
            browser.value(&format!("(document.getElementById('{id}').textContent = 'W'.repeat(64))")).await?;
        }
        for size in ["16px", "24px", "32px"] {
            browser.value(&format!("(document.documentElement.style.fontSize = '{size}')")).await?;
            for tab in ["teach", "settings"] {
                browser.show_tab(tab).await?;
                let width = browser.value("document.documentElement.scrollWidth").await?;
                assert_eq!(width, PHONE.size.0, "{tab} in letters of {size}");
            }
            let shown = "document.querySelector('.look').offsetHeight / innerHeight";
            assert!(browser.value(shown).await?.as_f64().unwrap() < 0.71, "letters of {size}");
            // One letter below the other would fill it.
            let header = "document.querySelector('header').offsetHeight / innerHeight";
            assert!(browser.value(header).await?.as_f64().unwrap() < 0.25, "letters of {size}");
            let wide = "[...document.querySelectorAll('#tabs button')]\
                .filter(tab => tab.scrollWidth > tab.clientWidth + 1).length";
            assert_eq!(browser.value(wide).await?, 0, "letters of {size}");
        }
        browser.close().await
    });
}

#[test]
fn a_tablet_shows_the_names_of_all_tabs() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    chromium::run(async {
        let browser =
            Browser::open(&driver, &service, ViewOptions { size: (834, 1112), language: "de", ..PHONE }).await?;
        let cut = "[...document.querySelectorAll('#tabs [data-text]')]\
            .filter(name => name.scrollWidth > name.clientWidth).length";
        assert_eq!(browser.value(cut).await?, 0);
        browser.close().await
    });
}

#[test]
fn nothing_of_a_browsers_camera_is_kept_before_somebody_allows_it() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("everyday", folder.path());
    let film = Film::of(&shots("try", "rubber-duck"), folder.path());
    chromium::run(async {
        let browser = Browser::open(&driver, &service, ViewOptions { camera: Some(&film), ..DESK }).await?;
        browser.start_camera().await?;
        browser.until("document.getElementById('answer').textContent === 'unknown'").await?;
        // Several more answers.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(service.json("GET", "/api/v1/status", &Value::Null)["inbox"], 0);
        browser.show_tab("review").await?;
        browser.until("document.getElementById('collect-asked').textContent.includes('at most 200')").await?;
        browser.click("collect-allow").await?;
        browser
            .until("document.getElementById('collect-begun').textContent.startsWith('Collecting has begun')")
            .await?;
        browser.until(&format!("{WAITING} > 0")).await?;
        browser.reload().await?;
        browser.show_tab("settings").await?;
        browser.until("document.getElementById('collect').checked").await?;
        browser.click("collect").await?;
        // Who has decided is not asked again.
        browser.show_tab("review").await?;
        assert_eq!(browser.value("document.getElementById('collect-ask').hidden").await?, true);
        assert_eq!(browser.text("collect-begun").await?, "");
        browser.close().await
    });
}

#[test]
fn the_picture_stays_and_the_balance_says_what_it_would_recognise() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    let film = Film::of(&shots("learn", "cactus"), folder.path());
    chromium::run(async {
        let small = ViewOptions { size: (390, 664), camera: Some(&film), ..PHONE };
        let browser = Browser::open(&driver, &service, small).await?;
        teach(&browser, "cactus").await?;
        browser.show_tab("settings").await?;
        let notes = "[...document.querySelectorAll('#balance-choices .small')].map(note => note.textContent)";
        // Of each position by itself, or once for all where it is the same.
        let each = format!("{notes}.every(note => /^Recognises [0-9]+ of [0-9]+ stored shots/.test(note))");
        let same = "document.getElementById('expected').textContent.startsWith('All three recognise the same')";
        browser.until(&format!("({each}) || {same}")).await?;
        assert_eq!(browser.value(&format!("{notes}.length")).await?, 3);
        browser.value("scrollTo(0, document.documentElement.scrollHeight)").await?;
        browser.until("scrollY > 0").await?;
        let view = browser.value("document.getElementById('view').getBoundingClientRect().top").await?;
        assert!(view.as_f64().unwrap() >= 0.0, "the picture is scrolled away: {view}");
        browser.value("document.querySelector('#balance-choices label:last-child input').click()").await?;
        // The newest entry of the history comes first.
        browser.until("document.querySelector('#history li').textContent.includes('set the balance')").await?;
        browser.until("document.querySelector('#balance-choices label:last-child input').checked").await?;
        assert_eq!(service.json("GET", "/api/v1/status", &Value::Null)["balance"], "favour-new");
        browser.close().await
    });
}

#[test]
fn what_colours_say_is_seen_where_the_system_chooses_them() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    chromium::run(async {
        let browser = Browser::open(&driver, &service, PHONE).await?;
        browser.force_colours().await?;
        browser.until("matchMedia('(forced-colors: active)').matches").await?;
        let line = |selector: &str| format!("getComputedStyle(document.querySelector('{selector}')).borderTopWidth");
        assert_ne!(browser.value(&line("#tab-teach")).await?, browser.value(&line("#tab-knows")).await?);
        assert_eq!(browser.value(&line("#taken-steps span")).await?, "1px");
        browser.close().await
    });
}

//! Classes on the page: one that was exported comes back, and others are renamed and forgotten.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::chromium::{self, Browser, DESK, Driver};
use crate::support::service::Service;
use crate::support::shots;

#[test]
fn a_class_whose_name_is_known_is_imported_under_another_one() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    for number in 1..=5 {
        let picture = fs::read(shots("learn", "rubber-duck").join(format!("{number}.jpg"))).unwrap();
        assert_eq!(service.ask("POST", "/api/v1/shots/duck?anyway=true", "image/jpeg", &picture).0, 200);
    }
    service.json("POST", "/api/v1/learn", &json!({ "label": "duck" }));
    let learned =
        "[...document.querySelectorAll('#learned li > span:first-of-type')].map(i => i.firstChild.data).join()";
    let state = "document.getElementById('transfer-state').textContent";
    chromium::run(async {
        let browser = Browser::open(&driver, &service, DESK).await?;
        browser.until(&format!("{learned} === 'duck'")).await?;
        let (status, bytes) = service.ask("GET", "/api/v1/classes/duck/pack", "", b"");
        assert_eq!(status, 200);
        let [pack, broken] = ["duck.orcopack", "broken.orcopack"].map(|name| folder.path().join(name));
        fs::write(&pack, &bytes).unwrap();
        fs::write(&broken, &bytes[1..]).unwrap();

        browser.show_tab("settings").await?;
        browser.choose_file("import", &broken).await?;
        browser.until(&format!("{state}.includes('This is no file of an exported thing')")).await?;
        browser.choose_file("import", &pack).await?;
        browser.until("document.getElementById('dialog').open").await?;
        browser.keep("import-as").await?;
        browser.click("dialog-no").await?;
        browser.until(&format!("{state} === '' && !document.getElementById('import').disabled")).await?;
        browser.choose_file("import", &pack).await?;
        browser.until("document.getElementById('dialog').open").await?;
        browser.write("dialog-value", "goose").await?;
        browser.click("dialog-yes").await?;
        browser.until(&format!("{state}.includes('goose')")).await?;
        browser.until(&format!("{learned} === 'duck,goose'")).await?;
        assert_eq!(browser.text("error").await?, "");
        browser.close().await
    });
}

#[test]
fn a_class_is_forgotten_for_good_with_its_past() {
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    for number in 1..=2 {
        let picture = fs::read(shots("learn", "rubber-duck").join(format!("{number}.jpg"))).unwrap();
        assert_eq!(service.ask("POST", "/api/v1/shots/duck?anyway=true", "image/jpeg", &picture).0, 200);
    }
    service.json("POST", "/api/v1/learn", &json!({ "label": "duck" }));
    let forget = "[...document.querySelectorAll('#learned button')].find(b => b.textContent === 'Forget').click()";
    let question = |is_last: bool| {
        let kind = if is_last { "=" } else { "!" };
        format!(
            "document.getElementById('dialog').open && document.getElementById('dialog-remove').hidden {kind}== true"
        )
    };
    chromium::run(async {
        let browser = Browser::open(&driver, &service, DESK).await?;
        browser.show_tab("knows").await?;
        browser.until("document.querySelectorAll('#learned > li').length === 1").await?;
        browser.value(&format!("({forget}, true)")).await?;
        browser.until(&question(false)).await?;
        browser.keep("forget").await?;
        browser.click("dialog-remove").await?;
        browser.until(&question(true)).await?;
        browser.click("dialog-yes").await?;
        browser.until("document.querySelectorAll('#learned > li').length === 0").await?;
        browser.show_tab("history").await?;
        browser.until("document.getElementById('history').textContent.includes('forgot a thing for good')").await?;
        assert!(!browser.text("history").await?.contains("duck"));
        browser.close().await
    });
}

#[test]
fn classes_are_renamed_and_forgotten_with_the_keyboard_alone() {
    const ENTER: &str = "\u{e007}";
    let Some(driver) = Driver::start() else { return };
    let folder = TempDir::new().unwrap();
    let service = Service::start("cifar100-edge", folder.path());
    for label in ["rubber-duck", "mug"] {
        let picture = fs::read(shots("learn", label).join("1.jpg")).unwrap();
        let path = format!("/api/v1/shots/{label}?anyway=true");
        assert_eq!(service.ask("POST", &path, "image/jpeg", &picture).0, 200);
        service.json("POST", "/api/v1/learn", &json!({ "label": label }));
    }
    let is_open = "document.getElementById('dialog').open";
    // The control that has the focus, once the list was drawn anew.
    let focused = |name: &str| format!("!{is_open} && document.activeElement.ariaLabel === '{name}'");
    chromium::run(async {
        let browser = Browser::open(&driver, &service, DESK).await?;
        browser.show_tab("knows").await?;
        browser.until("document.querySelectorAll('#learned > li').length === 2").await?;
        browser.press("#learned [aria-label='Rename rubber-duck']", ENTER).await?;
        browser.until(is_open).await?;
        browser.send_keys("#dialog-value", &format!("rubber-ducks{ENTER}")).await?;
        browser.until(&focused("Rename rubber-ducks")).await?;
        browser.press("#learned [aria-label='Forget rubber-ducks']", ENTER).await?;
        browser.until(is_open).await?;
        browser.press("#dialog-yes", ENTER).await?;
        browser.until(&focused("Forget mug")).await?;
        browser.press("#learned [aria-label='Forget mug']", ENTER).await?;
        browser.until(is_open).await?;
        browser.press("#dialog-yes", ENTER).await?;
        browser.until(&format!("!{is_open} && document.activeElement.id === 'panel-knows'")).await?;
        browser.close().await
    });
}

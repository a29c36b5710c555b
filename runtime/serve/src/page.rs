//! The page, and the description of the interface: files that are part of the program.

use std::borrow::Cow;

use axum::http::header;
use axum::response::IntoResponse;

/// The interface, as OpenAPI describes it.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// Fonts and colours of the page, for other pages of the program.
pub const STYLE: &str = include_str!("../page/style.css");
/// Where the page itself is served.
pub const PAGE: &str = "/";

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    /// Where it is served.
    pub path: &'static str,
    /// Its content type.
    pub content_type: &'static str,
    /// Its text, as in the repository.
    text: &'static str,
}

const fn script(path: &'static str, text: &'static str) -> PageFile {
    PageFile { path, content_type: "text/javascript; charset=utf-8", text }
}

/// All files of the page.
pub static FILES: &[PageFile] = &[
    PageFile { path: PAGE, content_type: "text/html; charset=utf-8", text: include_str!("../page/index.html") },
    PageFile { path: "/style.css", content_type: "text/css; charset=utf-8", text: STYLE },
    PageFile { path: "/icon.svg", content_type: "image/svg+xml", text: include_str!("../page/icon.svg") },
    script("/app.js", include_str!("../page/app.js")),
    script("/answer.js", include_str!("../page/answer.js")),
    script("/balance.js", include_str!("../page/balance.js")),
    script("/cameras.js", include_str!("../page/cameras.js")),
    script("/choices.js", include_str!("../page/choices.js")),
    script("/classes.js", include_str!("../page/classes.js")),
    script("/consent.js", include_str!("../page/consent.js")),
    script("/dialog.js", include_str!("../page/dialog.js")),
    script("/dom.js", include_str!("../page/dom.js")),
    script("/events.js", include_str!("../page/events.js")),
    script("/geometry.js", include_str!("../page/geometry.js")),
    script("/header.js", include_str!("../page/header.js")),
    script("/history.js", include_str!("../page/history.js")),
    script("/inbox.js", include_str!("../page/inbox.js")),
    script("/jobs.js", include_str!("../page/jobs.js")),
    script("/labels.js", include_str!("../page/labels.js")),
    script("/language.js", include_str!("../page/language.js")),
    script("/live.js", include_str!("../page/live.js")),
    script("/pictures.js", include_str!("../page/pictures.js")),
    script("/problems.js", include_str!("../page/problems.js")),
    script("/refresh.js", include_str!("../page/refresh.js")),
    script("/refusals.js", include_str!("../page/refusals.js")),
    script("/regions.js", include_str!("../page/regions.js")),
    script("/scene.js", include_str!("../page/scene.js")),
    script("/scope.js", include_str!("../page/scope.js")),
    script("/selectors.js", include_str!("../page/selectors.js")),
    script("/service.js", include_str!("../page/service.js")),
    script("/shots.js", include_str!("../page/shots.js")),
    script("/sightings.js", include_str!("../page/sightings.js")),
    script("/source.js", include_str!("../page/source.js")),
    script("/storage.js", include_str!("../page/storage.js")),
    script("/store.js", include_str!("../page/store.js")),
    script("/sufficiency.js", include_str!("../page/sufficiency.js")),
    script("/tabs.js", include_str!("../page/tabs.js")),
    script("/texts.js", include_str!("../page/texts.js")),
    script("/transfer.js", include_str!("../page/transfer.js")),
];

impl PageFile {
    /// The file as the answer to a request.
    pub fn answer(&self) -> impl IntoResponse + use<> {
        file(self.content_type, self.served())
    }

    /// The text that browsers get: scripts lose their comment lines, a sixth of the page.
    fn served(&self) -> Cow<'static, str> {
        if !self.path.ends_with(".js") {
            return self.text.into();
        }
        let code = self.text.split_inclusive('\n').filter(|line| !is_comment(line));
        code.collect::<String>().into()
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// `GET /api/v1/openapi.json`
pub async fn openapi() -> impl IntoResponse {
    file("application/json", OPENAPI)
}

fn file(content_type: &'static str, text: impl IntoResponse) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, content_type)], text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    /// Keys of one language: each begins a line.
    fn keys(language: &str) -> BTreeSet<&str> {
        let key =
            |line: &'static str| line.strip_prefix("    ")?.split_once(": ").map(|(key, _)| key.trim_matches('"'));
        let text = include_str!("../page/texts.js");
        let start = text.find(&format!("  {language}: {{")).unwrap();
        text[start..].lines().skip(1).take_while(|line| *line != "  },").filter_map(key).collect()
    }

    #[test]
    fn every_script_of_the_folder_is_served() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/page")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let scripts: BTreeSet<String> =
            names.filter(|name| name.ends_with(".js")).map(|name| format!("/{name}")).collect();
        let served = super::FILES.iter().map(|file| file.path.to_owned()).filter(|path| path.ends_with(".js"));
        assert_eq!(served.collect::<BTreeSet<_>>(), scripts);
    }

    /// Bytes of the page, as browsers get it, compressed: a phone on a slow network shows it within a second.
    const MAX_BYTES: usize = 66_000;
    /// Of these, what a browser needs before it shows anything.
    const MAX_BYTES_AT_FIRST: usize = 10_000;

    #[test]
    fn the_page_stays_light() {
        let compressed = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.finish().unwrap().len()
        };
        let bytes = |is_counted: &dyn Fn(&str) -> bool| -> usize {
            super::FILES.iter().filter(|file| is_counted(file.path)).map(|file| compressed(&file.served())).sum()
        };
        assert!(bytes(&|_| true) <= MAX_BYTES, "{} bytes", bytes(&|_| true));
        let first = bytes(&|path| [super::PAGE, "/style.css"].contains(&path));
        assert!(first <= MAX_BYTES_AT_FIRST, "{first} bytes");
    }

    /// A line of a template that begins with `//` would be text, and must stay.
    #[test]
    fn no_text_of_a_script_looks_like_a_comment() {
        for file in super::FILES.iter().filter(|file| file.path.ends_with(".js")) {
            let (mut is_text, mut comments) = (false, 0);
            for line in file.text.lines() {
                if super::is_comment(line) {
                    assert!(!is_text, "{}: {line}", file.path);
                    comments += 1;
                } else if line.matches('`').count() % 2 == 1 {
                    is_text = !is_text;
                }
            }
            assert!(!is_text && comments > 0, "{}", file.path);
            assert_eq!(file.served().lines().count() + comments, file.text.lines().count(), "{}", file.path);
        }
    }

    #[test]
    fn both_languages_have_every_text_of_the_page() {
        let english = keys("en");
        assert_eq!(english, keys("de"));
        assert!(english.len() > 40);
        let uses = |text: &'static str, before: &str| -> Vec<&str> {
            text.split(before).skip(1).filter_map(|rest| rest.split_once('"')).map(|(key, _)| key).collect()
        };
        let html = include_str!("../page/index.html");
        let mut used = [uses(html, "data-text=\""), uses(html, "data-label=\"")].concat();
        // The texts themselves name their keys, too.
        let scripts = super::FILES.iter().filter(|file| file.path.ends_with(".js") && file.path != "/texts.js");
        for script in scripts {
            used.extend(uses(script.text, "message(\""));
        }
        assert!(used.len() > 40);
        let missing: Vec<&&str> = used.iter().filter(|key| !english.contains(**key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

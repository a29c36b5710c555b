//! The page, and the description of the interface: files that are part of the program.

use axum::http::header;
use axum::response::IntoResponse;

/// The interface, as OpenAPI describes it.
pub const OPENAPI: &str = include_str!("../openapi.json");

/// `GET /`
pub async fn index() -> impl IntoResponse {
    file("text/html; charset=utf-8", include_str!("../page/index.html"))
}

/// `GET /style.css`
pub async fn style() -> impl IntoResponse {
    file("text/css; charset=utf-8", include_str!("../page/style.css"))
}

/// `GET /app.js`
pub async fn script() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("../page/app.js"))
}

/// `GET /common.js`
pub async fn common() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("../page/common.js"))
}

/// `GET /texts.js`
pub async fn texts() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("../page/texts.js"))
}

/// `GET /enough.js`
pub async fn enough() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("../page/enough.js"))
}

/// `GET /inbox.js`
pub async fn inbox() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("../page/inbox.js"))
}

/// `GET /pictures.js`
pub async fn pictures() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("../page/pictures.js"))
}

/// `GET /camera.js`
pub async fn camera() -> impl IntoResponse {
    file("text/javascript; charset=utf-8", include_str!("../page/camera.js"))
}

/// `GET /api/v1/openapi.json`
pub async fn openapi() -> impl IntoResponse {
    file("application/json", OPENAPI)
}

fn file(content_type: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, content_type)], text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Keys of one language: each begins a line.
    fn keys(language: &str) -> BTreeSet<&str> {
        let key =
            |line: &'static str| line.strip_prefix("    ")?.split_once(": ").map(|(key, _)| key.trim_matches('"'));
        let text = include_str!("../page/texts.js");
        let start = text.find(&format!("  {language}: {{")).unwrap();
        text[start..].lines().skip(1).take_while(|line| *line != "  },").filter_map(key).collect()
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
        let scripts = [
            include_str!("../page/app.js"),
            include_str!("../page/camera.js"),
            include_str!("../page/common.js"),
            include_str!("../page/enough.js"),
            include_str!("../page/inbox.js"),
            include_str!("../page/pictures.js"),
        ];
        for script in scripts {
            used.extend(uses(script, "say(\""));
        }
        assert!(used.len() > 40);
        let missing: Vec<&&str> = used.iter().filter(|key| !english.contains(**key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

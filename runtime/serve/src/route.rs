//! Every route: its path, its method, what body it takes, whether it needs the token. What is not listed is not served.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Method;
use axum::middleware;
use axum::routing::{delete, get, patch, post};
use orco_runtime::image::MAX_FILE;

use crate::api::{camera, changes, inbox, inference, known, shots, thumbnails, watch};
use crate::error::Refusal;
use crate::guard::{self, Guard};
use crate::page;

/// Most bytes of JSON without tensors.
pub(crate) const JSON: usize = 64 << 10;

/// What body a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// None.
    None,
    /// JSON.
    Json,
    /// A JPEG or PNG file.
    Picture,
    /// JSON, with or without binary tensors behind it, as the Open Inference Protocol has it.
    Tensors,
}

impl Body {
    /// Most bytes of a body of that content type.
    pub fn limit(self, content_type: &str) -> usize {
        let is_json = content_type.eq_ignore_ascii_case("application/json");
        match self {
            Self::None => 0,
            Self::Json => JSON,
            Self::Picture => MAX_FILE as usize,
            // A picture of 12 MiB in Base64, or a thousand long feature vectors; what is larger goes as it is.
            Self::Tensors if is_json => (16 << 20) + JSON,
            Self::Tensors => MAX_FILE as usize + JSON,
        }
    }

    /// Content types that are taken.
    pub fn content_types(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Json => &["application/json"],
            Self::Picture => &["image/jpeg", "image/png"],
            Self::Tensors => &["application/json", "application/octet-stream"],
        }
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path, as axum and OpenAPI write it.
    pub path: &'static str,
    /// What body it takes.
    pub body: Body,
    /// Whether it is served without the token, where there is one: what shows nothing of what is known.
    pub open: bool,
    /// Whether something may stand after a `?`.
    pub query: bool,
}

impl Route {
    /// Whether it may change something.
    pub fn mutates(&self) -> bool {
        self.method != Method::GET
    }

    /// Takes a query.
    const fn asked(mut self) -> Self {
        self.query = true;
        self
    }
}

const fn read(path: &'static str) -> Route {
    Route { method: Method::GET, path, body: Body::None, open: false, query: false }
}

const fn open(path: &'static str) -> Route {
    // A page may be called with anything.
    Route { method: Method::GET, path, body: Body::None, open: true, query: true }
}

const fn write(method: Method, path: &'static str, body: Body) -> Route {
    Route { method, path, body, open: false, query: false }
}

/// All of them.
pub static ROUTES: [Route; 53] = [
    open("/"),
    open("/style.css"),
    open("/icon.svg"),
    open("/app.js"),
    open("/answer.js"),
    open("/common.js"),
    open("/texts.js"),
    open("/enough.js"),
    open("/inbox.js"),
    open("/jobs.js"),
    open("/known.js"),
    open("/pictures.js"),
    open("/camera.js"),
    open("/shots.js"),
    open("/source.js"),
    open("/v2/health/live"),
    open("/v2/health/ready"),
    open("/v2"),
    read("/v2/models/{name}"),
    read("/v2/models/{name}/ready"),
    write(Method::POST, "/v2/models/{name}/infer", Body::Tensors),
    open("/api/v1/openapi.json"),
    read("/api/v1/status"),
    read("/api/v1/classes"),
    write(Method::PATCH, "/api/v1/classes/{label}", Body::Json),
    write(Method::DELETE, "/api/v1/classes/{label}", Body::None).asked(),
    read("/api/v1/classes/{label}/shots/{file}"),
    write(Method::PATCH, "/api/v1/classes/{label}/shots/{file}", Body::Json),
    write(Method::POST, "/api/v1/classify", Body::Picture).asked(),
    read("/api/v1/shots"),
    read("/api/v1/shots/{label}"),
    write(Method::POST, "/api/v1/shots/{label}", Body::Picture).asked(),
    write(Method::DELETE, "/api/v1/shots/{label}", Body::None),
    read("/api/v1/shots/{label}/enough"),
    read("/api/v1/shots/{label}/{id}"),
    write(Method::DELETE, "/api/v1/shots/{label}/{id}", Body::None),
    read("/api/v1/inbox"),
    write(Method::DELETE, "/api/v1/inbox", Body::None),
    read("/api/v1/inbox/{id}"),
    write(Method::POST, "/api/v1/inbox/label", Body::Json),
    write(Method::POST, "/api/v1/inbox/dismiss", Body::Json),
    write(Method::POST, "/api/v1/learn", Body::Json),
    read("/api/v1/jobs"),
    read("/api/v1/jobs/{id}"),
    write(Method::POST, "/api/v1/undo", Body::Json),
    read("/api/v1/history"),
    write(Method::POST, "/api/v1/balance", Body::Json),
    read("/api/v1/events"),
    read("/api/v1/live"),
    read("/api/v1/camera.jpg").asked(),
    read("/api/v1/camera.mjpg"),
    write(Method::POST, "/api/v1/camera/shot", Body::Json),
    read("/metrics"),
];

/// The router behind the guard.
pub fn router(guard: Guard) -> Router {
    let service = guard.service();
    page::FILES
        .iter()
        .fold(Router::new(), |router, file| router.route(file.path, get(|| async { file.answer() })))
        .route("/v2/health/live", get(inference::live))
        .route("/v2/health/ready", get(inference::ready))
        .route("/v2", get(inference::server))
        .route("/v2/models/{name}", get(inference::model))
        .route("/v2/models/{name}/ready", get(inference::model_ready))
        .route("/v2/models/{name}/infer", post(inference::infer))
        .route("/api/v1/openapi.json", get(page::openapi))
        .route("/api/v1/status", get(known::status))
        .route("/api/v1/classes", get(known::classes))
        .route("/api/v1/classes/{label}", patch(changes::rename).delete(changes::forget))
        .route("/api/v1/classes/{label}/shots/{file}", get(thumbnails::thumbnail).patch(thumbnails::move_shot))
        .route("/api/v1/classify", post(known::classify))
        .route("/api/v1/shots", get(shots::all))
        .route("/api/v1/shots/{label}", get(shots::list).post(shots::take).delete(shots::clear))
        .route("/api/v1/shots/{label}/enough", get(shots::enough))
        .route("/api/v1/shots/{label}/{id}", get(shots::thumbnail))
        .route("/api/v1/shots/{label}/{id}", delete(shots::remove))
        .route("/api/v1/inbox", get(inbox::all).delete(inbox::clear))
        .route("/api/v1/inbox/label", post(inbox::label))
        .route("/api/v1/inbox/dismiss", post(inbox::dismiss))
        .route("/api/v1/inbox/{id}", get(inbox::frame))
        .route("/api/v1/learn", post(changes::learn))
        .route("/api/v1/jobs", get(changes::unfinished))
        .route("/api/v1/jobs/{id}", get(changes::job))
        .route("/api/v1/undo", post(changes::undo))
        .route("/api/v1/history", get(known::history))
        .route("/api/v1/balance", post(changes::balance))
        .route("/api/v1/events", get(watch::events))
        .route("/api/v1/live", get(camera::now))
        .route("/api/v1/camera.jpg", get(camera::newest))
        .route("/api/v1/camera.mjpg", get(camera::stream))
        .route("/api/v1/camera/shot", post(camera::shoot))
        .route("/metrics", get(watch::metrics))
        .fallback(|| async { Refusal::missing("there is no such path: GET /api/v1/openapi.json lists all") })
        .route_layer(middleware::from_fn_with_state(guard, guard::check))
        // The guard has a limit for each route; axum's own would cut pictures off at 2 MB.
        .layer(DefaultBodyLimit::disable())
        .with_state(service)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_openapi_document_lists_every_route_and_no_other() {
        let document: Value = serde_json::from_str(page::OPENAPI).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let listed = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys().filter(|key| *key != "parameters");
            methods.map(move |method| (method.to_uppercase(), path.clone()))
        });
        // The page is for people.
        let pages: Vec<&str> = page::FILES.iter().map(|file| file.path).collect();
        let served = ROUTES.iter().filter(|route| !pages.contains(&route.path));
        let served: BTreeSet<_> = served.map(|route| (route.method.to_string(), route.path.to_owned())).collect();
        assert_eq!(listed.collect::<BTreeSet<_>>(), served);
        for route in ROUTES.iter().filter(|route| route.body != Body::None) {
            let method = route.method.as_str().to_lowercase();
            let content = document["paths"][route.path][method]["requestBody"]["content"].as_object();
            let types: BTreeSet<&str> = content.unwrap().keys().map(String::as_str).collect();
            assert_eq!(types, route.body.content_types().iter().copied().collect(), "{route:?}");
        }
    }

    #[test]
    fn the_openapi_document_says_which_routes_take_a_query() {
        let document: Value = serde_json::from_str(page::OPENAPI).unwrap();
        for route in ROUTES.iter().filter(|route| !route.open) {
            let method = route.method.as_str().to_lowercase();
            let parameters = document["paths"][route.path][method]["parameters"].as_array();
            let asked = parameters.is_some_and(|all| all.iter().any(|parameter| parameter["in"] == "query"));
            assert_eq!(asked, route.query, "{route:?}");
        }
    }

    #[test]
    fn what_changes_something_needs_the_token_and_a_type_for_its_body() {
        for route in ROUTES.iter().filter(|route| route.mutates()) {
            assert!(!route.open, "{route:?}");
            assert!(route.method == Method::DELETE || !route.body.content_types().is_empty(), "{route:?}");
        }
    }
}

//! The table of all routes, one row each, with its handler. `openapi.json` describes the same routes.

use std::sync::{Arc, LazyLock};

use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::{Extension, Router};

use crate::api::inference::{self, model};
use crate::api::{
    camera, changes, classes, classify, events, inbox, jobs, metrics, regions, scene, shots, sightings, status,
    stored_shots, transfer,
};
use crate::guard::{self, Guard};
use crate::page::{self, PageFile};
use crate::route::{BodyKind, Route};
use crate::stream_end::StreamEnd;

/// All routes, those of the page first.
pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    let of_page = |file: &'static PageFile| Route::get(file.path, || async { file.answer() });
    let page = page::FILES.iter().map(|file| of_page(file).without_token().compressed());
    page.chain([
        Route::get("/v2/health/live", model::live).without_token(),
        Route::get("/v2/health/ready", model::server_ready).without_token(),
        Route::get("/v2", model::server).without_token(),
        Route::post("/v2/repository/index", BodyKind::OptionalJson, model::index),
        Route::get("/v2/models/stats", model::all_statistics),
        Route::get("/v2/models/{name}", model::metadata),
        Route::get("/v2/models/{name}/ready", model::ready),
        Route::get("/v2/models/{name}/config", model::config),
        Route::get("/v2/models/{name}/stats", model::statistics),
        Route::post("/v2/models/{name}/infer", BodyKind::Tensors, inference::infer),
        Route::get("/v2/models/{name}/versions/{version}", model::metadata),
        Route::get("/v2/models/{name}/versions/{version}/ready", model::ready),
        Route::get("/v2/models/{name}/versions/{version}/config", model::config),
        Route::get("/v2/models/{name}/versions/{version}/stats", model::statistics),
        Route::post("/v2/models/{name}/versions/{version}/infer", BodyKind::Tensors, inference::infer),
        Route::get("/api/v1/openapi.json", page::openapi).without_token().compressed(),
        Route::get("/api/v1/status", status::status),
        Route::get("/api/v1/classes", classes::classes),
        Route::patch("/api/v1/classes/{label}", changes::rename),
        Route::delete("/api/v1/classes/{label}", changes::forget).with_query(),
        Route::get("/api/v1/classes/{label}/shots/{file}", stored_shots::thumbnail),
        Route::patch("/api/v1/classes/{label}/shots/{file}", stored_shots::move_shot),
        Route::delete("/api/v1/classes/{label}/shots/{file}", stored_shots::remove_shot),
        Route::post("/api/v1/classify", BodyKind::Picture, classify::classify).with_query(),
        Route::get("/api/v1/shots", shots::all),
        Route::get("/api/v1/shots/{label}", shots::list),
        Route::post("/api/v1/shots/{label}", BodyKind::Picture, shots::take).with_query(),
        Route::patch("/api/v1/shots/{label}", shots::relabel),
        Route::delete("/api/v1/shots/{label}", shots::clear),
        Route::get("/api/v1/shots/{label}/sufficiency", shots::sufficiency),
        Route::get("/api/v1/shots/{label}/{id}", shots::thumbnail),
        Route::delete("/api/v1/shots/{label}/{id}", shots::remove),
        Route::get("/api/v1/inbox", inbox::all),
        Route::delete("/api/v1/inbox", inbox::clear),
        Route::get("/api/v1/inbox/{id}", inbox::frame),
        Route::post("/api/v1/inbox/label", BodyKind::Json, inbox::label),
        Route::post("/api/v1/inbox/dismiss", BodyKind::Json, inbox::dismiss),
        Route::get("/api/v1/sightings", sightings::all),
        Route::get("/api/v1/sightings/{file}", sightings::file),
        Route::delete("/api/v1/sightings", sightings::clear),
        Route::post("/api/v1/learn", BodyKind::Json, changes::learn),
        Route::get("/api/v1/jobs", jobs::unfinished),
        Route::get("/api/v1/jobs/{id}", jobs::job),
        Route::post("/api/v1/undo", BodyKind::Json, changes::undo),
        Route::post("/api/v1/redo", BodyKind::Json, changes::redo),
        Route::get("/api/v1/backup", transfer::backup),
        Route::get("/api/v1/classes/{label}/pack", transfer::pack),
        Route::post("/api/v1/import", BodyKind::Pack, transfer::import).with_query(),
        Route::get("/api/v1/history", classes::history),
        Route::get("/api/v1/balance", classes::balance),
        Route::post("/api/v1/balance", BodyKind::Json, changes::balance),
        Route::post("/api/v1/answers", BodyKind::Json, changes::answers),
        Route::get("/api/v1/events", events::events),
        Route::get("/api/v1/live", camera::now),
        Route::get("/api/v1/camera.jpg", camera::newest).with_query(),
        Route::get("/api/v1/camera.mjpg", camera::stream),
        Route::post("/api/v1/camera/shot", BodyKind::Json, camera::shoot),
        Route::get("/api/v1/regions", regions::all),
        Route::post("/api/v1/regions", BodyKind::Json, regions::set),
        Route::get("/api/v1/scene", scene::status),
        Route::post("/api/v1/scene", BodyKind::Json, scene::learn),
        Route::delete("/api/v1/scene", scene::forget),
        Route::get("/metrics", metrics::metrics),
    ])
    .collect()
});

/// The router behind the guard. Streams last until they are ended by `streams`.
pub fn router(guard: Guard, streams: StreamEnd) -> Router {
    let service = Arc::clone(guard.service());
    let routes = ROUTES.iter();
    routes
        .fold(Router::new(), |router, route| router.route(route.path, route.handler.clone()))
        .fallback(guard::no_such_path)
        .route_layer(middleware::from_fn_with_state(guard, guard::check))
        // The guard has a limit for each route; axum's own would cut pictures off at 2 MB.
        .layer(DefaultBodyLimit::disable())
        .layer(Extension(streams))
        .with_state(service)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::http::Method;
    use serde_json::{Value, json};

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
        for route in ROUTES.iter().filter(|route| route.body != BodyKind::None) {
            let method = route.method.as_str().to_lowercase();
            let content = document["paths"][route.path][method]["requestBody"]["content"].as_object();
            let types: BTreeSet<&str> = content.unwrap().keys().map(String::as_str).collect();
            assert_eq!(types, route.body.content_types().iter().copied().collect(), "{route:?}");
        }
    }

    #[test]
    fn the_openapi_document_says_which_routes_need_no_token() {
        let document: Value = serde_json::from_str(page::OPENAPI).unwrap();
        let pages: Vec<&str> = page::FILES.iter().map(|file| file.path).collect();
        for route in ROUTES.iter().filter(|route| !pages.contains(&route.path)) {
            let security = &document["paths"][route.path][route.method.as_str().to_lowercase()]["security"];
            assert_eq!(*security == json!([]), route.open, "{route:?}");
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

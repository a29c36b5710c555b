//! What the service answers has no field that its description lacks, and all that the description requires.

use serde_json::{Value, json};

use crate::support::{Running, sample};

fn openapi() -> Value {
    serde_json::from_str(include_str!("../../openapi.json")).unwrap()
}

/// The schema that a reference names.
fn named<'a>(document: &'a Value, reference: &str) -> &'a Value {
    document.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("no {reference}"))
}

/// Checks an answer against the schema of that name.
pub(crate) fn check(name: &str, answer: &Value) {
    let mut found = Vec::new();
    let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
    undescribed(&openapi(), &schema, answer, name, &mut found);
    assert!(found.is_empty(), "openapi.json does not describe {found:?}: {answer}");
}

/// Adds fields of an answer that a schema does not name, those that it requires and the answer lacks, and words that it
/// does not list, by their paths.
fn undescribed(document: &Value, schema: &Value, answer: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return undescribed(document, named(document, reference), answer, path, found);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let missing = choices.iter().map(|choice| {
            let mut found = Vec::new();
            undescribed(document, choice, answer, path, &mut found);
            found
        });
        return found.extend(missing.min_by_key(Vec::len).unwrap_or_default());
    }
    if let Some(listed) = schema["x-extensible-enum"].as_array()
        && !listed.contains(answer)
    {
        found.push(format!("{path}={answer}"));
    }
    match (answer, schema["properties"].as_object()) {
        (Value::Object(fields), Some(properties)) => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            found.extend(required.filter(|name| !fields.contains_key(*name)).map(|name| format!("{path}.{name}!")));
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match properties.get(name) {
                    Some(schema) => undescribed(document, schema, value, &path, found),
                    None => found.push(path),
                }
            }
        }
        (Value::Object(fields), None) if schema["type"] != "object" && !fields.is_empty() => found.push(path.into()),
        (Value::Array(values), _) if schema["items"].is_object() => {
            values.iter().for_each(|value| undescribed(document, &schema["items"], value, &format!("{path}[]"), found));
        }
        _ => {}
    }
}

#[test]
fn every_field_of_an_answer_is_described() {
    let (_state, service) = Running::fresh();
    check("Job", &service.teach("duck", "rubber-duck"));
    let picture = sample("try", "cactus", 1);
    check("Taken", &service.picture("/api/v1/shots/cactus?anyway=true", &picture).ok());
    check("Sufficiency", &service.get("/api/v1/shots/cactus/sufficiency"));
    check("ModelMetadata", &service.get("/v2/models/cifar100-edge"));
    check("IndexedModel", &service.json("POST", "/v2/repository/index", &json!({})).ok()[0]);
    service.json("POST", "/api/v1/undo", &json!({}));
    let document = service.get("/api/v1/openapi.json");
    let mut found = Vec::new();
    let classified = service.picture("/api/v1/classify?why=true&inbox=true", &picture).ok();
    let schema =
        document.pointer("/paths/~1api~1v1~1classify/post/responses/200/content/application~1json/schema").unwrap();
    undescribed(&document, schema, &classified, "classify", &mut found);
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let schema = &methods["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        if schema.is_null() || path.contains('{') {
            continue;
        }
        let answer = service.ask("GET", path, &[], b"");
        // Some have nothing to say without a camera.
        if answer.status == 200 {
            asked += 1;
            undescribed(&document, schema, &answer.ok(), path, &mut found);
        }
    }
    assert!(asked >= 8, "only {asked} routes answered");
    assert!(found.is_empty(), "openapi.json does not describe {found:?}");
}

/// Adds the objects of an answer of which no field is required.
fn without_required(document: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        return without_required(document, named(document, reference), path, found);
    }
    let properties = schema["properties"].as_object();
    if properties.is_some() && schema["required"].is_null() {
        found.push(path.into());
    }
    for (name, field) in properties.into_iter().flatten() {
        without_required(document, field, &format!("{path}.{name}"), found);
    }
    for inner in schema["oneOf"].as_array().into_iter().flatten().chain(schema.get("items")) {
        without_required(document, inner, path, found);
    }
}

/// In clients that are generated from it, any other field may be missing.
#[test]
fn the_fields_that_every_answer_has_are_required() {
    let document = openapi();
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().values() {
            for answer in method["responses"].as_object().into_iter().flat_map(|answers| answers.values()) {
                without_required(&document, &answer["content"]["application/json"]["schema"], path, &mut found);
            }
        }
    }
    // It has losses of either kind, of both, or none.
    found.retain(|path| !path.ends_with(".report.forgetting"));
    assert!(found.is_empty(), "no field is required of {found:?}");
}

#[test]
fn the_header_with_a_frames_number_is_described() {
    let document = openapi();
    let answers = &document["paths"]["/api/v1/camera.jpg"]["get"]["responses"];
    assert!(["200", "204"].iter().all(|status| answers[*status]["headers"]["Orco-Frame"].is_object()), "{answers}");
}

/// Programs that are generated from it, and those that try all that it allows.
#[test]
fn what_a_request_may_hold_is_described() {
    let (_state, service) = Running::fresh();
    let document = service.get("/api/v1/openapi.json");
    let regions = &document["components"]["schemas"]["RegionsRequest"]["properties"]["regions"];
    let sides = &regions["items"]["properties"]["box"]["prefixItems"];
    assert_eq!([0_usize, 1].map(|edge| &sides[edge]["exclusiveMaximum"]), [&json!(1); 2]);
    assert_eq!([2_usize, 3].map(|length| &sides[length]["exclusiveMinimum"]), [&json!(0); 2]);
    let set = |name: &str, bounds: [f64; 4]| {
        service.json("POST", "/api/v1/regions", &json!({ "regions": [{ "name": name, "box": bounds }] })).status
    };
    assert_eq!(set("shelf", [0.0, 0.0, 1.0, 0.5]), 200);
    for bounds in [[0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.1, 1.0], [0.0, 1.0, 1.0, 0.1]] {
        assert_eq!(set("shelf", bounds), 400, "{bounds:?}");
    }
    assert_eq!(set("shelf", [0.0, 1.0, 1.0, 1e-9]), 400, "it begins at the frame's end");
    let outside = json!({ "regions": [{ "name": "shelf", "box": [0.6, 0.0, 0.6, 1.0] }] });
    let refused = service.json("POST", "/api/v1/regions", &outside);
    assert_eq!((refused.status, refused.error().contains("in pixels")), (400, false), "{}", refused.text());
    assert_eq!((&regions["items"]["properties"]["name"], set("a=b", [0.0, 0.0, 1.0, 0.5])), (&label(), 400));
    let (bare, labelled) = (json!({}), json!({ "label": "mug" }));
    // There is nothing to undo, redo or learn, and no camera.
    let optional = [
        ("/api/v1/undo", &bare, "entry", 409),
        ("/api/v1/undo", &bare, "last", 409),
        ("/api/v1/redo", &bare, "last", 409),
        ("/api/v1/learn", &labelled, "base", 409),
        ("/api/v1/camera/shot", &labelled, "anyway", 404),
        ("/api/v1/camera/shot", &labelled, "frame", 404),
        ("/api/v1/camera/shot", &labelled, "region", 404),
        ("/api/v1/camera/shot", &labelled, "at", 404),
        ("/v2/repository/index", &bare, "ready", 200),
    ];
    for (path, body, name, status) in optional {
        let schema = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let choices = schema["properties"][name]["oneOf"].as_array().unwrap();
        assert!(choices.contains(&json!({ "type": "null" })), "{path} {name}");
        let mut body = body.clone();
        body[name] = Value::Null;
        let answer = service.json("POST", path, &body);
        assert_eq!(answer.status, status, "{path} {name}: {}", answer.text());
    }
    let list = service.json("POST", "/v2/repository/index", &json!([true]));
    assert_eq!(list.status, 400, "a list is no object: {}", list.text());
}

fn label() -> Value {
    json!({ "$ref": "#/components/schemas/Label" })
}

#[test]
fn a_field_without_a_description_is_found() {
    let document = json!({ "components": { "schemas": { "Thing": { "type": "object", "properties": { "id": {} }, "required": ["id"] } } } });
    let schema = json!({ "type": "array", "items": { "oneOf": [
        { "$ref": "#/components/schemas/Thing" }, { "type": "null" }] } });
    let mut found = Vec::new();
    undescribed(&document, &schema, &json!([{ "id": 1, "more": 2 }, null, { "id": 3 }]), "things", &mut found);
    undescribed(&document, &json!({ "$ref": "#/components/schemas/Thing" }), &json!({}), "thing", &mut found);
    let state = json!({ "type": "string", "x-extensible-enum": ["READY"] });
    undescribed(&document, &state, &json!("READY"), "state", &mut found);
    undescribed(&document, &state, &json!("LOADING"), "state", &mut found);
    assert_eq!(found, ["things[].more", "thing.id!", "state=\"LOADING\""]);
}

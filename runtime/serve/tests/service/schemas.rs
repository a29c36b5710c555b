//! What the service answers has no field that its description lacks, and all that the description requires.

use serde_json::{Value, json};

use crate::support::Running;

/// Adds fields of an answer that a schema does not name, and those that it requires and the answer lacks, by their
/// paths.
fn undescribed(document: &Value, schema: &Value, answer: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let named = document.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("no {reference}"));
        return undescribed(document, named, answer, path, found);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let missing = choices.iter().map(|choice| {
            let mut found = Vec::new();
            undescribed(document, choice, answer, path, &mut found);
            found
        });
        return found.extend(missing.min_by_key(Vec::len).unwrap_or_default());
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
    service.teach("duck", "rubber-duck");
    service.json("POST", "/api/v1/undo", &json!({}));
    let document = service.get("/api/v1/openapi.json");
    let mut found = Vec::new();
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

#[test]
fn a_field_without_a_description_is_found() {
    let document = json!({ "components": { "schemas": { "Thing": { "type": "object", "properties": { "id": {} }, "required": ["id"] } } } });
    let schema = json!({ "type": "array", "items": { "oneOf": [
        { "$ref": "#/components/schemas/Thing" }, { "type": "null" }] } });
    let mut found = Vec::new();
    undescribed(&document, &schema, &json!([{ "id": 1, "more": 2 }, null, { "id": 3 }]), "things", &mut found);
    undescribed(&document, &json!({ "$ref": "#/components/schemas/Thing" }), &json!({}), "thing", &mut found);
    assert_eq!(found, ["things[].more", "thing.id!"]);
}

//! Messages by which Home Assistant finds the device by itself: one retained message for each entity, at
//! `PREFIX/COMPONENT/orco_ID/OBJECT/config` (Home Assistant's documentation, "MQTT Discovery", and the pages of the
//! components "MQTT Sensor", "MQTT Binary sensor", "MQTT Event" and "MQTT Image").

use orco_runtime::manifest::hexadecimal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::settings::MqttDevice;
use super::topics::{OFFLINE, ONLINE, Topics};

/// Most learned classes that have a presence sensor: those that were learned last.
pub const MAX_PRESENCE_SENSORS: usize = 64;
/// Most characters of a name that are shown.
const MAX_NAME_CHARS: usize = 60;
/// The condition, in templates, that the empty place was shown and does not fit: whether it is empty is unknown then.
const SCENE_LOST: &str = "value_json.scene in ['moved', 'unusable']";

/// What the device is, and what there is to report of.
#[derive(Clone, Debug)]
pub struct DeviceDescription {
    /// The bundle's name.
    pub bundle: String,
    /// The address of the service's page, where other machines reach it.
    pub page: Option<String>,
    /// Whether the service watches a camera of its own.
    pub camera: bool,
    /// Whether the camera's pictures are published.
    pub pictures: bool,
    /// What has entities of its own.
    pub named: EntityNames,
}

/// What has entities of its own, which come and go while the service runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityNames {
    /// Names of the regions of the camera's frames.
    pub regions: Vec<String>,
    /// Labels of learned classes, at most [`MAX_PRESENCE_SENSORS`].
    pub things: Vec<String>,
}

/// A filter for the topics of all entities of the device, those of earlier runs too.
pub fn topic_filter(device: &MqttDevice) -> String {
    format!("{}/+/{}/+/config", device.discovery, node(device))
}

/// The device's name in topics and identifiers.
fn node(device: &MqttDevice) -> String {
    format!("orco_{}", device.id)
}

/// The description of an entity, which the broker keeps for Home Assistant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityDescription {
    /// Its topic.
    pub topic: String,
    /// Its message, JSON. An empty one takes the entity away: the camera or the pictures that it needs are missing.
    pub config: String,
}

/// Descriptions of all entities.
pub fn descriptions(device: &MqttDevice, about: &DeviceDescription) -> Vec<EntityDescription> {
    let node = node(device);
    let topics = Topics::of(device);
    let mut shared = json!({
        "availability_topic": topics.availability, "payload_available": ONLINE, "payload_not_available": OFFLINE,
        "qos": 1,
        "device": {
            "identifiers": [&node], "name": device.name, "manufacturer": "OrCo", "model": about.bundle,
            "sw_version": env!("CARGO_PKG_VERSION"),
        },
        "origin": { "name": "orco", "sw_version": env!("CARGO_PKG_VERSION") },
    });
    if let Some(page) = &about.page {
        shared["device"]["configuration_url"] = json!(page);
    }
    camera_entities(&topics)
        .into_iter()
        .chain(knowledge_entities(&topics))
        .chain([picture_entity(&topics)])
        .chain(about.named.regions.iter().flat_map(|region| region_entities(&topics, region)))
        .chain(about.named.things.iter().map(|label| presence_entity(&topics, label)))
        .map(|Entity { component, object, of_camera, mut config }| {
            let topic = format!("{}/{component}/{node}/{object}/config", device.discovery);
            if of_camera && !about.camera || component == PICTURE && !about.pictures {
                return EntityDescription { topic, config: String::new() };
            }
            config["unique_id"] = format!("{node}_{object}").into();
            for (key, value) in shared.as_object().into_iter().flatten() {
                config[key] = value.clone();
            }
            EntityDescription { topic, config: config.to_string() }
        })
        .collect()
}

struct Entity {
    component: &'static str,
    object: String,
    of_camera: bool,
    config: Value,
}

impl Entity {
    /// One that there is only where the service watches a camera of its own.
    fn of_camera(component: &'static str, object: &str, config: Value) -> Self {
        Self { component, object: object.into(), of_camera: true, config }
    }

    /// One that every device has.
    fn of_device(component: &'static str, object: &str, config: Value) -> Self {
        Self { component, object: object.into(), of_camera: false, config }
    }
}

/// What the camera shows, and whether it runs.
fn camera_entities(topics: &Topics) -> [Entity; 5] {
    // "None" makes a state unknown in Home Assistant; so does null, which a template shows as None.
    [
        Entity::of_camera(
            "sensor",
            "label",
            json!({
                "name": "Label", "icon": "mdi:eye", "state_topic": topics.state,
                // Home Assistant takes states of at most 255 characters.
                "value_template": "{{ value_json.label[:255] if value_json.known else None }}",
                "json_attributes_topic": topics.state,
            }),
        ),
        Entity::of_camera(
            "sensor",
            "confidence",
            json!({
                "name": "Confidence", "icon": "mdi:gauge", "state_topic": topics.state,
                "value_template": "{{ None if value_json.probability is none \
                                   else (100 * value_json.probability) | round(1) }}",
                "unit_of_measurement": "%", "state_class": "measurement", "suggested_display_precision": 0,
            }),
        ),
        Entity::of_camera(
            "binary_sensor",
            "known",
            json!({
                "name": "Known", "icon": "mdi:image-search", "state_topic": topics.state,
                "value_template": "{{ None if value_json.label is none else 'ON' if value_json.known else 'OFF' }}",
                "payload_on": "ON", "payload_off": "OFF",
            }),
        ),
        Entity::of_camera(
            "binary_sensor",
            "empty",
            json!({
                "name": "Empty", "icon": "mdi:tray", "state_topic": topics.state,
                "value_template": format!("{{{{ None if {SCENE_LOST} or value_json.camera != 'running' \
                                           else 'ON' if value_json.empty else 'OFF' }}}}"),
                "payload_on": "ON", "payload_off": "OFF",
            }),
        ),
        Entity::of_camera(
            "binary_sensor",
            "camera",
            json!({
                "name": "Camera", "state_topic": topics.state, "device_class": "connectivity",
                "entity_category": "diagnostic",
                "value_template": "{{ 'ON' if value_json.camera == 'running' else 'OFF' }}",
                "payload_on": "ON", "payload_off": "OFF",
            }),
        ),
    ]
}

/// The template of a binary sensor that is on where a condition holds, and unknown while the camera gives no pictures.
fn on_where(condition: &str) -> String {
    format!("{{{{ None if value_json.camera != 'running' else 'ON' if {condition} else 'OFF' }}}}")
}

/// What the device knows, and the changes to it.
fn knowledge_entities(topics: &Topics) -> [Entity; 2] {
    [
        Entity::of_device(
            "sensor",
            "learned_classes",
            json!({
                "name": "Learned classes", "icon": "mdi:school", "state_topic": topics.classes,
                "value_template": "{{ value_json.learned }}", "json_attributes_topic": topics.classes,
                "state_class": "measurement", "entity_category": "diagnostic",
            }),
        ),
        Entity::of_device(
            "event",
            "change",
            json!({
                "name": "Learned or corrected", "icon": "mdi:update", "state_topic": topics.change,
                "event_types": ["done", "failed"],
            }),
        ),
    ]
}

/// Home Assistant's component of pictures.
const PICTURE: &str = "image";

/// The camera's picture.
fn picture_entity(topics: &Topics) -> Entity {
    let config = json!({ "name": "Picture", "image_topic": topics.picture, "content_type": "image/jpeg" });
    Entity::of_camera(PICTURE, "picture", config)
}

/// Whether a learned thing is in view, anywhere in the frame.
fn presence_entity(topics: &Topics, label: &str) -> Entity {
    let quoted = Value::from(label).to_string();
    Entity::of_camera(
        "binary_sensor",
        &object_of("thing", label),
        json!({
            "name": shortened(label), "device_class": "occupancy", "state_topic": topics.state,
            "value_template": on_where(&format!("{quoted} in value_json.in_view | default([])")),
            "payload_on": "ON", "payload_off": "OFF",
        }),
    )
}

/// Label and emptiness of a region.
fn region_entities(topics: &Topics, name: &str) -> [Entity; 2] {
    let quoted = Value::from(name).to_string();
    let of_region = |value: &str| {
        format!(
            "{{% set region = value_json.regions | default([]) | selectattr('name', 'eq', {quoted}) | first | default(none) %}}\
             {{{{ {value} }}}}"
        )
    };
    let (object, shown) = (object_of("region", name), shortened(name));
    [
        Entity::of_camera(
            "sensor",
            &format!("{object}_label"),
            json!({
                "name": format!("{shown}: label"), "icon": "mdi:eye", "state_topic": topics.state,
                "value_template": of_region("region.label[:255] if region and region.known else none"),
            }),
        ),
        Entity::of_camera(
            "binary_sensor",
            &format!("{object}_empty"),
            json!({
                "name": format!("{shown}: empty"), "icon": "mdi:tray", "state_topic": topics.state,
                "value_template": of_region(&format!(
                    "none if {SCENE_LOST} or not region else 'ON' if region.empty else 'OFF'"
                )),
                "payload_on": "ON", "payload_off": "OFF",
            }),
        ),
    ]
}

/// A name that Home Assistant can make an identifier of, which has at most 255 letters.
fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_NAME_CHARS {
        name.into()
    } else {
        name.chars().take(MAX_NAME_CHARS - 1).chain(['…']).collect()
    }
}

/// A name as a part of a topic: its letters and digits, and the numbers of all others, so that two names never give the
/// same; of a long name, a digest.
fn object_of(kind: &str, name: &str) -> String {
    if name.chars().count() > MAX_NAME_CHARS {
        return format!("{kind}_{}", hexadecimal(&Sha256::digest(name)[..16]));
    }
    let part = |letter: char| match letter {
        'a'..='z' | '0'..='9' => letter.to_string(),
        other => format!("_{:x}_", u32::from(other)),
    };
    format!("{kind}_{}", name.chars().map(part).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::MqttSettings;

    fn device(id: &str) -> MqttDevice {
        MqttSettings { id: Some(id.into()), ..MqttSettings::new("mqtt://localhost") }.check().unwrap()
    }

    fn about(named: EntityNames) -> DeviceDescription {
        let page = Some("https://door3.local:8080".into());
        DeviceDescription { bundle: "everyday".into(), page, camera: true, pictures: true, named }
    }

    #[test]
    fn every_entity_has_a_topic_and_an_identifier_of_its_own() {
        let long = "b".repeat(300);
        let (regions, things) =
            (vec!["shelf".into(), "Shelf 2".into(), long.clone()], vec!["mug \"A\"".into(), long.clone()]);
        let about = about(EntityNames { regions, things });
        let all: Vec<EntityDescription> =
            ["door3", "door4"].iter().flat_map(|id| descriptions(&device(id), &about)).collect();
        let mut topics: Vec<&str> = all.iter().map(|entity| entity.topic.as_str()).collect();
        let identifier = |entity: &EntityDescription| {
            let config: Value = serde_json::from_str(&entity.config).unwrap();
            config["unique_id"].as_str().unwrap().to_owned()
        };
        let mut identifiers: Vec<String> = all.iter().map(identifier).collect();
        topics.sort_unstable();
        topics.dedup();
        identifiers.sort_unstable();
        identifiers.dedup();
        assert_eq!((topics.len(), identifiers.len()), (32, 32));
        assert!(topics.contains(&"homeassistant/sensor/orco_door3/label/config"), "{topics:?}");
        assert!(topics.contains(&"homeassistant/sensor/orco_door3/region_shelf_label/config"), "{topics:?}");
        let of_region = all.iter().find(|entity| entity.topic.contains("region__53_helf_20_2_empty")).unwrap();
        assert!(of_region.config.contains(r#"'eq', \"Shelf 2\""#), "{}", of_region.config);
        let config = |object: &str| -> Value {
            let entity = all.iter().find(|entity| entity.topic.contains(object)).unwrap();
            serde_json::from_str(&entity.config).unwrap()
        };
        let mug = config("/thing_mug_20__22__41__22_/");
        let is_here = r#""mug \"A\"" in value_json.in_view | default([])"#;
        assert_eq!(mug["value_template"], on_where(is_here));
        let empty = config("/empty/")["value_template"].as_str().unwrap().to_owned();
        let unknown = "None if value_json.scene in ['moved', 'unusable'] or value_json.camera != 'running' else";
        assert!(empty.starts_with(&format!("{{{{ {unknown} 'ON' if")), "{empty}");
        assert!(of_region.config.contains("none if value_json.scene in ['moved', 'unusable'] or not region"));
        assert_eq!(mug["device"]["configuration_url"], "https://door3.local:8080");
        let name = config(&object_of("thing", &long))["name"].as_str().unwrap().to_owned();
        assert!(name.chars().count() == MAX_NAME_CHARS && name.ends_with("b…"), "{name}");
        assert_eq!(config(&format!("{}_label", object_of("region", &long)))["name"], format!("{name}: label"));
    }

    #[test]
    fn without_a_camera_its_entities_are_taken_away() {
        let found =
            descriptions(&device("door3"), &DeviceDescription { camera: false, ..about(EntityNames::default()) });
        let empty: Vec<&str> =
            found.iter().filter(|entity| entity.config.is_empty()).map(|entity| &*entity.topic).collect();
        assert_eq!((found.len(), empty.len()), (8, 6), "{empty:?}");
        assert!(empty.iter().all(|topic| !topic.contains("classes") && !topic.contains("change")));
        // Nor is there a picture that nobody asked for.
        let found =
            descriptions(&device("door3"), &DeviceDescription { pictures: false, ..about(EntityNames::default()) });
        let empty: Vec<&str> =
            found.iter().filter(|entity| entity.config.is_empty()).map(|entity| &*entity.topic).collect();
        assert_eq!(empty, ["homeassistant/image/orco_door3/picture/config"]);
    }
}

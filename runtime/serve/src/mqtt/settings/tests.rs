//! Addresses and passwords of MQTT brokers: which are taken, which are refused.

use std::fs;

use orco_runtime::state::sentence::with_causes;

use super::*;

#[test]
fn brokers_are_named_by_their_address() {
    for (text, shown) in [
        ("mqtt://door3", "mqtt://door3:1883"),
        ("mqtts://broker.example/", "mqtts://broker.example:8883"),
        ("mqtt://192.0.2.7:1884", "mqtt://192.0.2.7:1884"),
        ("mqtts://[2001:db8::1]", "mqtts://[2001:db8::1]:8883"),
        ("mqtt://[::1]:1", "mqtt://[::1]:1"),
        ("MQTTS://door3", "mqtts://door3:8883"),
    ] {
        let broker: BrokerAddress = text.parse().unwrap();
        assert_eq!(broker.to_string(), shown);
        assert_eq!(shown.parse::<BrokerAddress>().unwrap(), broker);
    }
    for (text, why) in [
        ("", "not understood"),
        ("door3", "does not begin with mqtt://"),
        ("http://door3", "does not begin with mqtt://"),
        ("mqtt://", ""),
        ("mqtt://door3:", "port"),
        ("mqtt://door3:0", "port"),
        ("mqtt://door3:65536", ""),
        ("mqtt://door3/topic", "names a path"),
        ("mqtt://door3?x=1", "names a path"),
        ("mqtt://anna:secret@door3", "user or password"),
    ] {
        let error = text.parse::<BrokerAddress>().unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("expected mqtt://HOST") && !error.contains("secret"), "{error}");
    }
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_is_sent() {
    let good = || MqttSettings { id: Some("door3".into()), ..MqttSettings::new("mqtt://localhost") };
    assert_eq!(good().check().unwrap().topic, "orco/door3");
    let refused = |settings: MqttSettings| settings.check().unwrap_err();
    for id in ["", "door 3", "door/3", "döör", &"x".repeat(129)] {
        assert!(matches!(refused(MqttSettings { id: Some(id.into()), ..good() }), MqttError::Id(_)), "{id}");
    }
    for topic in ["", "/orco", "orco/", "orco/#", "+", "$SYS", "or\nco", &"x".repeat(129)] {
        assert!(matches!(refused(MqttSettings { topic: topic.into(), ..good() }), MqttError::Topic(_)), "{topic}");
        assert!(matches!(refused(MqttSettings { discovery: topic.into(), ..good() }), MqttError::Topic(_)), "{topic}");
    }
    assert!(matches!(refused(MqttSettings { name: " ".into(), ..good() }), MqttError::Name));
    assert!(matches!(refused(MqttSettings { ca_file: Some("ca.pem".into()), ..good() }), MqttError::NoTls));
    let secure = MqttSettings { broker: "mqtts://localhost".into(), ..good() };
    assert!(secure.clone().check().is_ok());
    let missing = refused(MqttSettings { ca_file: Some("no/ca.pem".into()), ..secure.clone() });
    assert!(matches!(missing, MqttError::Certificates { .. }));
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("ca.pem");
    fs::write(&empty, "nothing").unwrap();
    assert!(matches!(refused(MqttSettings { ca_file: Some(empty), ..secure }), MqttError::Certificates { .. }));
    // Without an identifier it is the machine's host name, which can always be used.
    assert!(MqttSettings::new("mqtt://localhost").check().is_ok());
}

#[test]
#[cfg(unix)]
fn a_password_is_its_owners_alone_and_never_shown() {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    let settings = |broker: &str| {
        let mut settings = MqttSettings::new(broker);
        (settings.user, settings.password_file) = (Some("anna".into()), Some(path.clone()));
        settings
    };
    let missing = settings("mqtt://door3").check().unwrap_err();
    assert!(matches!(missing, MqttError::Password { .. }));
    let said = with_causes(&missing);
    assert_eq!(said.matches("os error 2").count(), 1, "{said}");
    for (text, password) in [("geheim\n", "geheim"), ("geheim", "geheim"), (" a b \r\n", " a b ")] {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let device = settings("mqtt://door3").check().unwrap();
        assert_eq!(device.password.as_ref().unwrap().0, password.as_bytes());
        assert!(device.is_overheard() && !format!("{device:?}").contains(password), "{device:?}");
    }
    assert!(!settings("mqtts://door3").check().unwrap().is_overheard());
    assert!(!settings("mqtt://127.0.0.1").check().unwrap().is_overheard());
    let nobody = MqttSettings { user: None, ..settings("mqtt://door3") };
    assert!(matches!(nobody.check(), Err(MqttError::NoUser)));
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(settings("mqtt://door3").check(), Err(MqttError::PasswordExposed { .. })));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    for text in ["", "\n", "two\nlines\n"] {
        fs::write(&path, text).unwrap();
        assert!(matches!(settings("mqtt://door3").check(), Err(MqttError::InvalidPassword { .. })), "{text:?}");
    }
}

#[test]
#[cfg(unix)]
fn a_pipe_holds_neither_a_password_nor_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (user, file) = (Some("anna".to_owned()), Some(pipe));
    let of_password = MqttSettings { user, password_file: file.clone(), ..MqttSettings::new("mqtt://door3") };
    assert!(matches!(of_password.check(), Err(MqttError::Password { .. })));
    let of_certificates = MqttSettings { ca_file: file, ..MqttSettings::new("mqtts://door3") };
    assert!(matches!(of_certificates.check(), Err(MqttError::Certificates { .. })));
}

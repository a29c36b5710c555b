//! Options of `orco serve` that name the MQTT broker it reports to.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use orco_serve::mqtt::{MqttDevice, MqttSettings};

/// Options of the MQTT client in `orco serve`.
#[derive(Args, Clone, Debug)]
pub struct MqttOptions {
    /// An MQTT broker that is told what the camera shows and what was learned: mqtt://HOST, or mqtts://HOST for TLS;
    /// Home Assistant finds the device there. Nothing is taken from it.
    #[arg(long, value_name = "URL", env = "ORCO_MQTT_BROKER")]
    mqtt_broker: Option<String>,
    /// The device's user name at the broker.
    #[arg(long, value_name = "NAME", env = "ORCO_MQTT_USER")]
    mqtt_user: Option<String>,
    /// File of that user's password, on one line, readable by its owner alone.
    #[arg(long, value_name = "FILE", env = "ORCO_MQTT_PASSWORD_FILE")]
    mqtt_password_file: Option<PathBuf>,
    /// Certificates that may vouch for the broker, a PEM file; without it, those that Mozilla trusts.
    #[arg(long, value_name = "FILE", env = "ORCO_MQTT_CA_FILE")]
    mqtt_ca_file: Option<PathBuf>,
    /// What tells the device from others of the same broker, in its topics too: letters, digits, - and _; by default
    /// the machine's host name.
    #[arg(long, value_name = "ID", env = "ORCO_MQTT_ID")]
    mqtt_id: Option<String>,
    /// What people call the device.
    #[arg(long, value_name = "NAME", env = "ORCO_MQTT_NAME", default_value = "OrCo")]
    mqtt_name: String,
    /// What the device's topics begin with; its identifier follows.
    #[arg(long, value_name = "TOPIC", env = "ORCO_MQTT_TOPIC", default_value = "orco")]
    mqtt_topic: String,
    /// What the topics begin with in which Home Assistant looks for devices.
    #[arg(long, value_name = "PREFIX", env = "ORCO_MQTT_DISCOVERY", default_value = "homeassistant")]
    mqtt_discovery: String,
    /// Publishes a small picture whenever the camera shows something else: whoever may read from the broker sees it.
    #[arg(long, env = "ORCO_MQTT_PICTURES", value_parser = clap::builder::BoolishValueParser::new())]
    mqtt_pictures: bool,
}

impl MqttOptions {
    /// The device as the broker knows it, where a broker is named.
    ///
    /// # Errors
    /// If anything about it cannot be used; the broker is not asked.
    pub fn device(&self) -> Result<Option<MqttDevice>> {
        let Some(broker) = self.mqtt_broker.clone() else {
            if self.mqtt_user.is_some() || self.mqtt_password_file.is_some() || self.mqtt_ca_file.is_some() {
                bail!("there are settings for an MQTT broker, but none is named: do that with --mqtt-broker URL");
            }
            return Ok(None);
        };
        let settings = MqttSettings::new(broker)
            .user(self.mqtt_user.clone())
            .password_file(self.mqtt_password_file.clone())
            .ca_file(self.mqtt_ca_file.clone())
            .id(self.mqtt_id.clone())
            .name(self.mqtt_name.clone())
            .topic(self.mqtt_topic.clone())
            .discovery(self.mqtt_discovery.clone())
            .pictures(self.mqtt_pictures);
        Ok(Some(settings.check()?))
    }
}

//! The topics below which a device publishes, and the two words of its availability.

use super::settings::MqttDevice;

/// What the device says of itself while it runs.
pub const ONLINE: &str = "online";
/// What the device says when it ends, and the broker for a device that went without a word.
pub const OFFLINE: &str = "offline";

/// The device's topics. Their messages are retained, except those of `change`.
#[derive(Clone, Debug)]
pub struct Topics {
    /// [`ONLINE`] or [`OFFLINE`].
    pub availability: String,
    /// What its camera shows.
    pub state: String,
    /// How many classes it knows.
    pub classes: String,
    /// The result of a change.
    pub change: String,
    /// What the camera saw when something else was last recognised.
    pub picture: String,
}

impl Topics {
    /// Those of a device.
    pub fn of(device: &MqttDevice) -> Self {
        let topic = |name: &str| format!("{}/{name}", device.topic);
        Self {
            availability: topic("availability"),
            state: topic("state"),
            classes: topic("classes"),
            change: topic("change"),
            picture: topic("picture"),
        }
    }
}

//! Switches a line of a GPIO chip.

use std::path::PathBuf;
use std::time::Duration;

/// A line of a GPIO chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpio {
    /// The chip's character device.
    pub chip: PathBuf,
    /// The line's number on the chip.
    pub line: u32,
    /// How long it is active.
    pub pulse: Duration,
    /// Whether active is low.
    pub active_low: bool,
}

impl Gpio {
    /// Makes the line active for a while.
    #[cfg(target_os = "linux")]
    pub(super) fn pulse(&self, is_stopping: &dyn Fn() -> bool) -> Result<(), String> {
        use gpiocdev::line::Value;

        let mut request = gpiocdev::Request::builder();
        request.on_chip(&self.chip).with_consumer("orco").with_line(self.line).as_output(Value::Inactive);
        if self.active_low {
            request.as_active_low();
        }
        let line = request.request().map_err(|error| error.to_string())?;
        let switch = |value| line.set_value(self.line, value).map_err(|error| error.to_string());
        switch(Value::Active)?;
        crate::worker::sleep(self.pulse, is_stopping);
        switch(Value::Inactive)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn pulse(&self, _: &dyn Fn() -> bool) -> Result<(), String> {
        Err("this system has no lines that can be switched".into())
    }
}

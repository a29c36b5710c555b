//! The actions of rules, one file for each kind: a web address, a program, a GPIO line.

mod gpio;
mod program;
mod webhook;

use std::fmt;
use std::time::Duration;

use orco_camera::mask_address;

pub use self::gpio::Gpio;
pub use self::webhook::Webhook;
use super::Occurrence;

/// How long a call, or a program, may take.
const ACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// What a rule does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Action {
    /// Posts JSON to a web address.
    Webhook(Webhook),
    /// Starts a program, with these arguments.
    Command(Vec<String>),
    /// Switches a line.
    Gpio(Gpio),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Webhook(webhook) => write!(f, "webhook {}", mask_address(&webhook.url)),
            Self::Command(command) => write!(f, "command {}", command[0]),
            Self::Gpio(gpio) => write!(f, "line {} of {}", gpio.line, gpio.chip.display()),
        }
    }
}

impl Action {
    /// Does it; gives up when it is told to stop.
    ///
    /// # Errors
    /// What went wrong.
    pub fn perform(&self, occurrence: &Occurrence, is_stopping: &dyn Fn() -> bool) -> Result<(), String> {
        match self {
            Self::Webhook(webhook) => webhook.call(occurrence, is_stopping),
            Self::Command(command) => program::run(command, occurrence, is_stopping),
            Self::Gpio(gpio) => gpio.pulse(is_stopping),
        }
    }

    /// Ends a call that waits for its answer; later ones fail at once. [`Action::perform`], told to stop, ends all
    /// else.
    pub fn interrupt(&self) {
        if let Self::Webhook(webhook) = self {
            webhook.interrupt();
        }
    }
}

//! Why a recipe is refused, and the rules that several of its sections share.

use std::fmt::Display;
use std::ops::RangeInclusive;

use toml::{Table, Value};

/// Why a recipe was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read the recipe {path}")]
    Read {
        /// The recipe's path.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is no recipe.
    #[error("{path} is not a valid recipe")]
    Parse {
        /// The recipe's path.
        path: String,
        /// What the parser said, with line and column.
        source: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("recipe: {field} is {value}, but must be {expected}")]
    Value {
        /// Dotted name of the field.
        field: String,
        /// What was written.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A list holds more values than the setting has.
    #[error("recipe: {field} holds {written} values, but must hold {expected}")]
    Length {
        /// Dotted name of the field.
        field: String,
        /// How many were written.
        written: usize,
        /// How many would be accepted.
        expected: usize,
    },
    /// A setting goes by another name.
    #[error("recipe: {field} is now {instead}")]
    Renamed {
        /// What was written.
        field: &'static str,
        /// What to write.
        instead: &'static str,
    },
    /// A setting of phase 3 makes no sense.
    #[error("recipe: learn.{problem}")]
    Learn {
        /// Its name and what it must be.
        problem: &'static str,
    },
}

/// Largest number of classes and of pseudo-targets.
pub(crate) const MAX_CLASSES: usize = 4096;

/// Refuses the recipe unless the rule holds.
pub(super) fn demand(
    field: &'static str,
    value: impl Display,
    holds: bool,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if holds { Ok(()) } else { Err(ConfigError::Value { field: field.into(), value: value.to_string(), expected }) }
}

/// Refuses a list that is longer than what was read of it: the parser would pass over its last values. `prefix` comes
/// before the names of the table's fields.
pub(super) fn refuse_long_lists(prefix: &str, written: &Table, read: &Table) -> Result<(), ConfigError> {
    for (name, value) in written {
        let field = format!("{prefix}{name}");
        match (value, read.get(name)) {
            (Value::Table(written), Some(Value::Table(read))) => {
                refuse_long_lists(&format!("{field}."), written, read)?;
            }
            (Value::Array(written), Some(Value::Array(read))) if written.len() > read.len() => {
                return Err(ConfigError::Length { field, written: written.len(), expected: read.len() });
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn count(
    field: &'static str,
    value: usize,
    range: RangeInclusive<usize>,
    expected: &'static str,
) -> Result<(), ConfigError> {
    demand(field, value, range.contains(&value), expected)
}

/// A weight of a loss, or the width of a noise.
pub(super) fn amount(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, (0.0..=1e6).contains(&value), "from 0 to 1000000")
}

/// A learning rate.
pub(super) fn learning_rate(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, value > 0.0 && value <= 100.0, "above 0 and at most 100")
}

/// A momentum; at 1, old gradients would never fade.
pub(super) fn momentum(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, (0.0..1.0).contains(&value), "at least 0 and below 1")
}

/// A temperature; cosines over a lower one than 0.001 overflow.
pub(super) fn temperature(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, (1e-3..=1e3).contains(&value), "from 0.001 to 1000")
}

pub(super) fn probability(field: &'static str, value: f64) -> Result<(), ConfigError> {
    demand(field, value, (0.0..=1.0).contains(&value), "from 0 to 1")
}

//! The projection head.

use serde::{Deserialize, Serialize};

use super::check::{ConfigError, demand};

/// The projection head g: features - hidden - projection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadConfig {
    /// Width of the hidden layer.
    pub hidden: i64,
    /// Dimension d of the sphere.
    pub projection: i64,
}

impl Default for HeadConfig {
    fn default() -> Self {
        Self { hidden: 512, projection: 256 }
    }
}

impl HeadConfig {
    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let Self { hidden, projection } = *self;
        demand("head.hidden", hidden, (1..=65_536).contains(&hidden), "from 1 to 65536")?;
        demand("head.projection", projection, (2..=65_536).contains(&projection), "from 2 to 65536")
    }
}

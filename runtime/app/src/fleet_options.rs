//! The options of `orco sync` that `orco doctor` takes, too.

use std::path::PathBuf;

use clap::Args;
use orco_hub::client::{HttpTransport, SyncError};
use orco_serve::port_of;

/// Where the fleet's hub is.
#[derive(Args, Debug)]
pub struct FleetOptions {
    /// Address of the fleet's hub, such as http://hub:8090. Without one nothing is ever sent.
    #[arg(long, value_name = "URL", env = "ORCO_HUB", value_parser = hub_address)]
    hub: Option<String>,
    /// Certificates that vouch for a hub with https, a PEM file; by default those of public authorities.
    #[arg(long, value_name = "FILE", env = "ORCO_HUB_CA_FILE")]
    hub_ca_file: Option<PathBuf>,
}

impl FleetOptions {
    /// The hub's address, if one is named.
    pub fn hub(&self) -> Option<&str> {
        self.hub.as_deref().filter(|hub| !hub.is_empty())
    }

    /// What carries requests to the hub at this address.
    ///
    /// # Errors
    /// [`SyncError::File`] if the file of certificates cannot be used.
    pub fn transport(&self, hub: &str) -> Result<HttpTransport, SyncError> {
        match &self.hub_ca_file {
            Some(file) => HttpTransport::with_certificates(hub, file),
            None => Ok(HttpTransport::new(hub)),
        }
    }
}

/// Reads the address of a hub; an empty one in a file of settings counts as not given.
fn hub_address(argument: &str) -> Result<String, String> {
    if argument.is_empty() {
        return Ok(String::new());
    }
    let lower = argument.to_lowercase();
    let host = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://")).unwrap_or_default();
    let is_host = |letter: char| letter.is_alphanumeric() || "[_-.".contains(letter);
    // Paths are added at its end.
    let can_go_on = !argument.contains(['?', '#']) && !argument.contains(char::is_whitespace);
    let expected = "expected http:// or https:// and a host, such as http://hub:8090, without ? or #";
    if !host.starts_with(is_host) || !can_go_on {
        return Err(expected.into());
    }
    let uri = argument.parse().map_err(|_| expected.to_owned())?;
    port_of(&uri).map_err(|why| format!("the address {why}"))?;
    Ok(argument.to_owned())
}

//! `orco serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use orco_runtime::learner::Settings;
use orco_serve::{Address, Server, Service, Tls};
use serde_json::{Value, json};

use crate::device;
use crate::options::Options;
use crate::output::{Output, say};

/// How long a change waits, at least, for another program that is changing the same state.
const WAIT: Duration = Duration::from_secs(10);

/// Arguments of `orco serve`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Where it listens. On any address but this machine's own, callers must give the token.
    #[arg(long, value_name = "ADDRESS:PORT", env = "ORCO_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// File of the token that callers must give, readable by its owner alone; it is made if it is not there.
    #[arg(long, value_name = "FILE", env = "ORCO_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// A name by which the machine is called, beside localhost and its addresses; may be given again.
    #[arg(long, value_name = "NAME", env = "ORCO_HOST_NAME", value_delimiter = ',')]
    pub host_name: Vec<String>,
    /// Certificate for TLS, a PEM file; browsers on other machines give their camera only over https.
    #[arg(long, value_name = "FILE", env = "ORCO_CERTIFICATE")]
    pub certificate: Option<PathBuf>,
    /// The certificate's key, a PEM file.
    #[arg(long, value_name = "FILE", env = "ORCO_KEY")]
    pub key: Option<PathBuf>,
}

impl Arguments {
    /// Certificate and key, where both are given.
    ///
    /// # Errors
    /// If one of them is given alone.
    pub fn tls(&self) -> Result<Option<Tls>> {
        match (self.certificate.clone(), self.key.clone()) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some(Tls { certificate, key })),
            (Some(_), None) => bail!("there is a certificate without its key: name that with --key FILE"),
            (None, Some(_)) => bail!("there is a key without its certificate: name that with --certificate FILE"),
        }
    }
}

/// Serves until it is told to stop.
pub fn run(options: &Options, output: &Output, arguments: &Arguments) -> Result<Value> {
    let tls = arguments.tls()?;
    let (bundle, store, settings) = device::parts(options, usize::MAX)?;
    let settings = Settings { wait: settings.wait.max(WAIT), ..settings };
    let service = Service::open(bundle, store, settings)?;
    let address = Address {
        listen: arguments.listen,
        token: arguments.token_file.clone(),
        names: arguments.host_name.clone(),
        tls,
        ..Address::default()
    };
    let server = Server::bind(service, address)?;
    let url = server.url();
    say!(output, "open {url} in a browser; Ctrl-C ends it")?;
    server.run()?;
    Ok(json!({ "url": url }))
}

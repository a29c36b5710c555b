//! The port that an address names.

use std::num::NonZeroU16;

use axum::http::Uri;

/// The port of an address; none if it names none.
///
/// # Errors
/// If what follows the colon is no port from 1 to 65535: clients would silently take the scheme's own. The error is the
/// end of a sentence that begins with the address.
pub fn port_of(uri: &Uri) -> Result<Option<u16>, &'static str> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match host.rsplit_once(':') {
        // What ends with ] is an IPv6 address without a port.
        Some((_, port)) if !port.ends_with(']') => {
            let port: Result<NonZeroU16, _> = port.parse();
            port.map(|port| Some(port.get())).map_err(|_| "has no port from 1 to 65535 after its colon")
        }
        _ => Ok(None),
    }
}

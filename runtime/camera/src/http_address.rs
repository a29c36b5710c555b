//! Names and passwords that stand in an address, as HTTP sends them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::CameraError;

/// An address, taken apart into what is asked for and what proves the right to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HttpAddress {
    /// The address without name and password.
    pub url: Url,
    /// Name and password, as basic authentication sends them (RFC 7617).
    pub authorization: Option<String>,
}

/// The `Authorization` header for the name and password in an address (RFC 7617); none where the address has neither.
/// In the address they may be percent-encoded, as `@`, `:` and `/` must be.
pub fn basic_authorization(address: &str) -> Option<String> {
    authorization_in(&Url::parse(address).ok()?)
}

fn authorization_in(url: &Url) -> Option<String> {
    let (name, password) = (url.username(), url.password());
    (!name.is_empty() || password.is_some()).then(|| {
        let mut sent: Vec<u8> = percent_decode_str(name).collect();
        sent.push(b':');
        sent.extend(percent_decode_str(password.unwrap_or_default()));
        format!("Basic {}", STANDARD.encode(sent))
    })
}

impl HttpAddress {
    pub fn of(address: &str) -> Result<Self, CameraError> {
        let mut url = Url::parse(address).map_err(|error| CameraError::InvalidAddress(error.into()))?;
        let authorization = authorization_in(&url);
        // Addresses with a host, as these have, may hold both or neither.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        Ok(Self { url, authorization })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_sent_as_they_are_meant() {
        for (address, url, sent) in [
            ("http://admin:p%40ss@door3/stream", "http://door3/stream", Some("admin:p@ss")),
            ("https://a%3Ab:%2f%23%3F%25@door3:8443/?x=1", "https://door3:8443/?x=1", Some("a:b:/#?%")),
            ("http://me:se@cret@door3/", "http://door3/", Some("me:se@cret")),
            ("http://me:100%@door3/", "http://door3/", Some("me:100%")),
            ("http://me@door3/", "http://door3/", Some("me:")),
            ("http://:secret@door3/", "http://door3/", Some(":secret")),
            ("http://door3/@stream", "http://door3/@stream", None),
        ] {
            let found = HttpAddress::of(address).unwrap();
            let authorization = sent.map(|sent| format!("Basic {}", STANDARD.encode(sent)));
            assert_eq!((found.url.as_str(), found.authorization), (url, authorization), "{address}");
        }
        let error = HttpAddress::of("http://admin:pass#1@door3/").unwrap_err();
        assert!(matches!(error, CameraError::InvalidAddress(_)) && !error.to_string().contains("pass"), "{error}");
    }
}

//! Where a camera says that its pictures are now: followed on the camera itself alone.
//!
//! What another host sends would be shown and learned as this camera's pictures, and it would be sent the camera's
//! password.

use url::{Position, Url};

use crate::error::CameraError;

/// The address that the header `location`, in an answer from `from`, stands for. It keeps the name and password of
/// `from`.
///
/// A redirect from http on its usual port to https on its usual port is followed: that is how cameras insist on TLS.
///
/// # Errors
/// [`CameraError::RedirectWithoutAddress`] if `location` is no address; [`CameraError::RedirectElsewhere`] if it leads
/// to another host or port, or from https to http.
pub(crate) fn target(from: &str, location: &str) -> Result<String, CameraError> {
    let from = Url::parse(from).map_err(|_| CameraError::RedirectWithoutAddress)?;
    if location.is_empty() {
        return Err(CameraError::RedirectWithoutAddress);
    }
    let mut to = from.join(location).map_err(|_| CameraError::RedirectWithoutAddress)?;
    // What a camera says here may hold a password of its own choice: neither is it used, nor told.
    let _ = to.set_username(from.username()).and_then(|()| to.set_password(from.password()));
    let is_same = from.origin() == to.origin();
    let is_upgrade = (from.scheme(), to.scheme()) == ("http", "https")
        && (from.host(), from.port(), to.port()) == (to.host(), None, None);
    if is_same || is_upgrade {
        return Ok(to.into());
    }
    let place = &to[Position::BeforeHost..Position::AfterPort];
    Err(CameraError::RedirectElsewhere(format!("{}://{place}", to.scheme())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_camera_is_followed_on_itself_alone() {
        let from = "http://me:secret@door3/stream?size=1";
        for (location, expected) in [
            ("/new", "http://me:secret@door3/new"),
            ("new?a=b", "http://me:secret@door3/new?a=b"),
            ("http://door3:80/new", "http://me:secret@door3/new"),
            ("http://other:words@door3/new", "http://me:secret@door3/new"),
            ("https://door3/new", "https://me:secret@door3/new"),
            ("//DOOR3/new", "http://me:secret@door3/new"),
        ] {
            assert_eq!(target(from, location).unwrap(), expected, "{location}");
        }
        for (from, location, told) in [
            (from, "http://door4/stream", "http://door4"),
            (from, "//door4/stream", "http://door4"),
            (from, "http://door3:8080/stream", "http://door3:8080"),
            (from, "https://door3:8443/stream", "https://door3:8443"),
            (from, "http://door3.evil.example/", "http://door3.evil.example"),
            (from, "http://door3@evil.example/", "http://evil.example"),
            (from, "http:\\\\evil.example/", "http://evil.example"),
            ("https://door3/stream", "http://door3/stream", "http://door3"),
            ("http://door3:8000/stream", "https://door3/stream", "https://door3"),
            (from, "file:///etc/passwd", "file://"),
        ] {
            let error = target(from, location).unwrap_err().to_string();
            assert!(error.contains(&format!("on to {told},")) && !error.contains("secret"), "{location}: {error}");
        }
        for location in ["", "http://"] {
            assert!(matches!(target(from, location), Err(CameraError::RedirectWithoutAddress)), "{location}");
        }
    }
}

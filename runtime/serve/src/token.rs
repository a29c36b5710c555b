//! The token that callers from other machines must give: 256 random bits, in a file of its owner alone.

use std::io::{self, Read};
use std::path::Path;

use axum::http::{HeaderMap, header};
use orco_runtime::files;
use orco_runtime::manifest::hexadecimal;
use subtle::ConstantTimeEq;

use crate::error::ServeError;
use crate::secret_file;

/// Hexadecimal digits of a token.
const DIGITS: usize = 64;

/// A token.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Reads the token of a file, or makes both.
    ///
    /// # Errors
    /// [`ServeError`] if the file cannot be read or made, is open to others, or holds no token.
    pub fn read_or_make(path: &Path) -> Result<Self, ServeError> {
        // One that is there is only read: its folder may be another user's, its disk full or read-only.
        if !files::is_absent(path) {
            return Self::read(path);
        }
        let failed = |source| ServeError::Token { path: path.into(), source };
        match Self::make(path) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::read(path),
            made => made.map_err(failed),
        }
    }

    /// Reads the token of a file.
    ///
    /// # Errors
    /// As for [`Token::read_or_make`], and if there is no such file.
    pub fn read(path: &Path) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Token { path: path.into(), source };
        let file = secret_file::open(path).map_err(failed)?;
        let file = file.ok_or_else(|| ServeError::TokenExposed { path: path.into() })?;
        let mut text = String::new();
        file.take(DIGITS as u64 + 3).read_to_string(&mut text).map_err(failed)?;
        let token = text.trim();
        if token.len() != DIGITS || !token.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(ServeError::InvalidToken { path: path.into() });
        }
        Ok(Self(token.to_ascii_lowercase()))
    }

    fn make(path: &Path) -> io::Result<Self> {
        files::check_own_folder(path.parent().unwrap_or(path))?;
        let mut bytes = [0; DIGITS / 2];
        getrandom::fill(&mut bytes)?;
        let token = hexadecimal(&bytes);
        files::create(path, format!("{token}\n").as_bytes())?;
        Ok(Self(token))
    }

    /// The token itself, for invitations.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Whether somebody gave this token; the time it takes tells nothing about it.
    pub fn is(&self, given: &str) -> bool {
        given.to_ascii_lowercase().as_bytes().ct_eq(self.0.as_bytes()).into()
    }
}

/// The token that a request brings: `Authorization: Bearer TOKEN`.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    // Schemes are written in small letters or large ones (RFC 7235, section 2.1).
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("Bearer").then(|| token.trim())
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_kept_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::read_or_make(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim().len(), DIGITS);
        assert!(token.is(text.trim()) && Token::read_or_make(&path).unwrap().is(text.trim()));
        assert!(!token.is("") && !token.is(&text.trim()[1..]) && !token.is(&"0".repeat(DIGITS)));
        assert!(!Token::read_or_make(&folder.path().join("other")).unwrap().is(text.trim()));
        assert!(!format!("{token:?}").contains(text.trim()));
    }

    #[test]
    #[cfg(unix)]
    fn root_makes_no_token_for_itself_in_a_folder_of_another_user() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["token", "other"].map(|name| folder.path().join(name));
        let token = Token::read_or_make(&path).unwrap();
        if std::os::unix::fs::chown(folder.path(), Some(65_534), None).is_err() {
            return orco_trials::skipped("folders of another user (giving one away needs root)");
        }
        assert!(matches!(Token::read_or_make(&other), Err(ServeError::Token { .. })) && !other.exists());
        assert!(Token::read_or_make(&path).unwrap().is(token.digits()), "one that is there is read");
    }

    #[test]
    #[cfg(unix)]
    fn a_file_that_others_read_or_that_holds_no_token_is_refused() {
        use std::fs::{Permissions, set_permissions, write};
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        Token::read_or_make(&path).unwrap();
        for mode in [0o604, 0o644, 0o660, 0o620, 0o602] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(matches!(Token::read_or_make(&path), Err(ServeError::TokenExposed { .. })), "{mode:o}");
        }
        // As systemd hands it on.
        set_permissions(&path, Permissions::from_mode(0o440)).unwrap();
        let of_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&path).unwrap()) == 0;
        assert_eq!(Token::read_or_make(&path).is_ok(), of_root);
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        for text in ["", "short", &"x".repeat(DIGITS), &"0".repeat(DIGITS + 1)] {
            write(&path, text).unwrap();
            assert!(matches!(Token::read_or_make(&path), Err(ServeError::InvalidToken { .. })), "{text}");
        }
        let missing = Token::read_or_make(&folder.path().join("no/token"));
        assert!(matches!(missing, Err(ServeError::Token { .. })));
        let folder = Token::read_or_make(folder.path());
        assert!(matches!(folder, Err(ServeError::Token { .. })), "{folder:?}");
    }
}

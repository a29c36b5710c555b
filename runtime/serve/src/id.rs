//! Identifiers that no restart issues again.
//!
//! A client that asks for job 3 after a restart must not read about another job 3: an identifier is a random number of
//! this run and a count. It is written as a string, `5f0c2a91d3b84e67-3`, since the integers of JavaScript end at 2^53.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// What an identifier is called in a refusal.
const EXPECTED: &str = "an id as it was given, a string such as \"5f0c2a91d3b84e67-3\" (plain numbers are not taken)";
/// Hexadecimal digits of a run.
const DIGITS: usize = 16;

/// Identifies a job, a frame of the inbox, or a shot that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    run: u64,
    count: u64,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$x}-{}", self.run, self.count)
    }
}

/// A string is no identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no id: expected {EXPECTED}")]
pub struct ParseIdError(String);

impl FromStr for Id {
    type Err = ParseIdError;

    /// # Errors
    /// [`ParseIdError`] if no identifier is written like this.
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let id = text.split_once('-').and_then(|(run, count)| {
            Some(Self { run: u64::from_str_radix(run, 16).ok()?, count: count.parse().ok()? })
        });
        // Every identifier is written in one way.
        id.filter(|id| id.to_string() == text).ok_or_else(|| ParseIdError(text.chars().take(40).collect()))
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// Issues identifiers, in ascending order.
#[derive(Debug)]
pub struct IdSource {
    run: u64,
    count: u64,
}

impl Default for IdSource {
    /// Identifiers of a run of their own.
    fn default() -> Self {
        let mut bytes = [0; 8];
        let run = match getrandom::fill(&mut bytes) {
            Ok(()) => u64::from_ne_bytes(bytes),
            // Two runs do not begin in the same nanosecond.
            Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
        };
        Self { run, count: 0 }
    }
}

impl IdSource {
    /// The next one.
    pub fn next_id(&mut self) -> Id {
        self.count += 1;
        Id { run: self.run, count: self.count }
    }

    /// Whether this run has issued an identifier.
    pub fn issued(&self, id: Id) -> bool {
        id.run == self.run && (1..=self.count).contains(&id.count)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_a_text_that_no_other_run_gives() {
        let (mut ids, mut others) = (IdSource::default(), IdSource::default());
        let (first, second) = (ids.next_id(), ids.next_id());
        assert!(first < second && ids.issued(second) && !others.issued(first));
        assert_ne!(others.next_id(), first);
        assert_eq!(serde_json::from_value::<Id>(json!(first)).unwrap(), first);
        assert_eq!(json!(first).as_str().unwrap(), first.to_string());
    }

    #[test]
    fn numbers_and_other_texts_are_refused_in_a_sentence() {
        let id = "00c0ffee00c0ffee-7";
        assert_eq!(id.parse::<Id>().unwrap().to_string(), id);
        for wrong in ["7", "", "-", "c0ffee-7", "00C0FFEE00C0FFEE-7", "00c0ffee00c0ffee-07", "00c0ffee00c0ffee-+7"] {
            let said = wrong.parse::<Id>().unwrap_err().to_string();
            assert!(said.contains("expected an id as it was given"), "{said}");
        }
        let said = serde_json::from_value::<Id>(json!(7)).unwrap_err().to_string();
        assert!(said.contains("integer `7`, expected an id as it was given, a string"), "{said}");
    }
}

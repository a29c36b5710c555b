//! Hexadecimal digits of byte arrays, for headers, JSON and people.

/// Writes bytes as hexadecimal digits.
pub(super) fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads exactly `N` bytes. Capital digits are refused, so that each value has one spelling.
pub(super) fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let lower = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    if text.len() != 2 * N || !text.bytes().all(lower) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(0..) {
        *byte = u8::from_str_radix(&text[2 * pair..2 * pair + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Gives a type of fixed bytes its text, its JSON and its column in SQLite.
macro_rules! hexadecimal_bytes {
    ($name:ident, $length:literal, $what:literal) => {
        impl $name {
            /// Reads it from hexadecimal digits.
            pub fn parse(text: &str) -> Option<Self> {
                $crate::protocol::hex::decode::<$length>(text).map(Self)
            }

            /// Its bytes.
            pub fn bytes(&self) -> &[u8; $length] {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&$crate::protocol::hex::encode(&self.0))
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::parse(&text).ok_or_else(|| serde::de::Error::custom(concat!("expected ", $what)))
            }
        }

        impl rusqlite::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(self.0.as_slice().into())
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                <[u8; $length]>::column_result(value).map(Self)
            }
        }
    };
}
pub(super) use hexadecimal_bytes;

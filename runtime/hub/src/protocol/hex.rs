//! Types of fixed bytes that headers, JSON and people see as hexadecimal digits.

/// Gives a type of fixed bytes its text, its JSON and its column in SQLite.
macro_rules! hexadecimal_bytes {
    ($name:ident, $length:literal, $what:literal) => {
        impl $name {
            /// Reads it from hexadecimal digits.
            pub fn parse(text: &str) -> Option<Self> {
                orco_runtime::manifest::from_hexadecimal(text).map(Self)
            }

            /// Its bytes.
            pub fn bytes(&self) -> &[u8; $length] {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&orco_runtime::manifest::hexadecimal(&self.0))
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

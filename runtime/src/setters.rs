//! Setters of settings and options, so that programs go on to compile when there is one more.

/// Setters of a type of this project's crates, to be called one after the other.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($options:ident: $($field:ident: $kind:ty),+ $(,)?) => {
        impl $options {
            $(
                #[doc = concat!("The same with another `", stringify!($field), "`.")]
                #[must_use]
                pub fn $field(mut self, $field: $kind) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}

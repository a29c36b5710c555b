//! Setters of options, so that programs go on to compile when there is one option more.

/// Setters of an options type, to be called one after the other.
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
pub(crate) use setters;

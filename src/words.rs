//! Enums whose values are written as one word each: in settings, in items, as options.
//!
//! [`words!`] lists the words of such an enum once. The order of the list is the order in which
//! messages and documents show the words.

/// Gives an enum `ALL`, `WORDS`, `as_str` and `parse`.
macro_rules! words {
    ($name:ident: $($variant:ident $word:literal),*) => {
        impl $name {
            /// All values, in the order of the documentation.
            pub const ALL: [Self; Self::WORDS.len()] = [$(Self::$variant),*];

            /// The word of each value.
            pub const WORDS: [&'static str; [$($word),*].len()] = [$($word),*];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == text)
            }
        }
    };
}

pub(crate) use words;

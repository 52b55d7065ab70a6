//! Names of databases and origins.

use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The name of a database or of an origin: 1 to 64 letters, digits, `-` or `_` of ASCII.
///
/// Subjects of NATS have these names between dots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

impl Name {
    /// The longest name, bytes.
    pub const MAX: usize = 64;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = Error;

    /// # Errors
    /// [`Error::Refused`] if the text is not valid as a name.
    fn from_str(text: &str) -> Result<Name> {
        let is_fine = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if text.is_empty() || text.len() > Name::MAX || !text.bytes().all(is_fine) {
            return Err(Error::Refused(format!(
                "{text:?} is not a valid name in a stream: use 1 to 64 letters, digits, '-' or '_'"
            )));
        }
        Ok(Name(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_single_parts_of_a_subject() {
        for good in ["a", "app-1_B", &"x".repeat(64)] {
            let name = Name::from_str(good).expect("a valid name");
            assert_eq!(name.to_string(), good);
        }
        for bad in ["", "a.b", "a b", "*", ">", "é", &"x".repeat(65)] {
            let found = Name::from_str(bad);
            assert!(matches!(found, Err(Error::Refused(_))), "{bad:?}");
        }
    }
}

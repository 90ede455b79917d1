//! Text that must not be displayed: passwords.

use serde::{Deserialize, Deserializer};
use std::fmt;

/// Password. Only [`Secret::reveal`] returns the text; everywhere else it shows as dots.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text` from logs and debug output.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Password in the clear.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Shows dots, so that structures with a secret in them can be printed.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print() {
        let secret = Secret::new("hunter2");
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(secret.reveal(), "hunter2");
    }
}

//! What `densite_join` is told beside the address.

use crate::member::tables::Settings;
use serde::Deserialize;

/// The second argument of `densite_join`: what is here, and the [`Settings`].
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Options {
    /// The name of the new member.
    pub(super) origin: Option<String>,
    /// This database was moved here, and the other one is gone.
    pub(super) moved: bool,
    /// Rows of a copy that the stream may lack are given up.
    pub(super) discard: bool,
    /// The stream lost messages that this member has applied: read it again.
    pub(super) after_loss: bool,
    /// The members differ, and this one is right: it goes on.
    pub(super) right: bool,
}

const OPTIONS: [&str; 5] = ["origin", "moved", "discard", "after_loss", "right"];

/// Reads the second argument.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parsed(json: &str) -> serde_json::Result<(Options, Settings)> {
    let all: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json)?;
    let (own, others) = all
        .into_iter()
        .partition(|(name, _)| OPTIONS.contains(&name.as_str()));
    Ok((
        serde_json::from_value(serde_json::Value::Object(own))?,
        serde_json::from_value(serde_json::Value::Object(others))?,
    ))
}

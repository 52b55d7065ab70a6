//! The arguments of `USING densite_ingest(…)`.

use crate::error::refused;
use crate::names::unquoted;
use crate::policy::OnConflict;
use densite_sqlite::Result;

/// The parsed arguments.
pub(super) struct Arguments {
    pub(super) table: String,
    pub(super) on_conflict: OnConflict,
    pub(super) fail_when_full: bool,
}

impl Arguments {
    /// Parses the arguments from SQLite.
    pub(super) fn parse(arguments: &[String]) -> Result<Arguments> {
        let mut parsed = Arguments {
            table: String::new(),
            on_conflict: OnConflict::Abort,
            fail_when_full: false,
        };
        for (i, argument) in arguments.iter().enumerate() {
            let option = argument
                .split_once('=')
                .map(|(k, v)| (k.trim().to_ascii_lowercase(), v.trim()));
            match option {
                Some((key, value)) if key == "on_conflict" => {
                    parsed.on_conflict = OnConflict::parse(value)?;
                }
                Some((key, value)) if key == "on_full" => {
                    parsed.fail_when_full = match value.trim_matches(['\'', '"']) {
                        "wait" => false,
                        "error" => true,
                        other => {
                            return Err(refused(format!("on_full={other}: use wait or error")));
                        }
                    };
                }
                _ if i == 0 => parsed.table = unquoted(argument),
                _ => {
                    return Err(refused(format!(
                        "densite_ingest does not know {argument:?}; use densite_ingest(table, on_conflict=…, on_full=…)"
                    )));
                }
            }
        }
        match parsed.table.is_empty() {
            true => Err(refused(
                "densite_ingest needs the table's name: USING densite_ingest(table)",
            )),
            false => Ok(parsed),
        }
    }
}

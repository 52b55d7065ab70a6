//! The arguments of `USING densite_ingest(…)`, and the options of `densite_config('ingest', …)`.

use crate::error::refused;
use crate::read::check_upsert;
use crate::schema::names::unquoted;
use crate::schema::policy::OnConflict;
use crate::schema::target::Target;
use densite_sqlite::{Connection, Result, quoted};

/// The parsed arguments.
pub(crate) struct Arguments {
    pub(super) table: String,
    pub(super) on_conflict: OnConflict,
    /// The same as it was written, without quotes around it.
    policy: String,
    pub(super) fail_when_full: bool,
    /// The ingest table has the name of its table, which it hides. `None` if this is not said.
    shadow: Option<bool>,
}

impl Arguments {
    /// Parses the arguments from SQLite.
    pub(crate) fn parse(arguments: &[String]) -> Result<Arguments> {
        let mut parsed = Arguments {
            table: String::new(),
            on_conflict: OnConflict::Abort,
            policy: "abort".to_owned(),
            fail_when_full: false,
            shadow: None,
        };
        for (i, argument) in arguments.iter().enumerate() {
            let option = argument
                .split_once('=')
                .map(|(k, v)| (k.trim().to_ascii_lowercase(), v.trim()));
            match option {
                Some((key, value)) if key == "on_conflict" => {
                    parsed.on_conflict = OnConflict::parse(value)?;
                    unquoted(value).trim().clone_into(&mut parsed.policy);
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
                Some((key, value)) if key == "shadow" => {
                    parsed.shadow = match value.trim_matches(['\'', '"']) {
                        "on" => Some(true),
                        "off" => Some(false),
                        other => return Err(refused(format!("shadow={other}: use on or off"))),
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
    /// Checks the policy against the table.
    ///
    /// # Errors
    /// An error if the table has no key, or lacks a column of `update(…)`, or if SQLite does not
    /// compile its expressions.
    pub(crate) fn check(&self, connection: &Connection, target: &Target) -> Result<()> {
        if target.key.is_none() && self.on_conflict != OnConflict::Abort {
            return Err(refused(format!(
                "table {} has no primary key, so on_conflict has no effect; leave it out",
                target.name
            )));
        }
        if let OnConflict::Update(columns) = &self.on_conflict
            && let Some(unknown) = columns.iter().find(|c| target.column(c).is_none())
        {
            return Err(refused(format!(
                "table {} has no column {unknown} that can be set",
                target.name
            )));
        }
        if let OnConflict::Set(upsert) = &self.on_conflict {
            target.check_upsert(connection, upsert)?;
            check_upsert(connection, target, upsert)?;
        }
        Ok(())
    }

    /// Whether the ingest table hides its table. Only the setting of a database can say so.
    pub(crate) fn shadow(&self) -> Option<bool> {
        self.shadow
    }

    /// The name of the ingest table that a setting of the database makes.
    pub(crate) fn visible_name(&self) -> String {
        match self.shadow {
            Some(true) => self.table.clone(),
            _ => format!("{}_in", self.table),
        }
    }

    /// The statement that makes it. The libraries of Python and Rust write it in the same way, so
    /// that they take this table for theirs.
    pub(crate) fn declaration(&self) -> String {
        let (name, table) = (quoted(&self.visible_name()), quoted(&self.table));
        let (policy, full) = (self.policy.replace('\'', "''"), self.full());
        format!(
            "CREATE VIRTUAL TABLE temp.{name} USING densite_ingest({table}, on_conflict='{policy}', on_full={full})"
        )
    }

    /// The options, as they are stored.
    pub(crate) fn options(&self) -> String {
        let shadow = match self.shadow {
            Some(true) => ", shadow=on",
            _ => "",
        };
        let policy = match self.on_conflict {
            OnConflict::Update(_) | OnConflict::Set(_) => {
                format!("'{}'", self.policy.replace('\'', "''"))
            }
            _ => self.policy.clone(),
        };
        format!("on_conflict={policy}, on_full={}{shadow}", self.full())
    }

    fn full(&self) -> &'static str {
        if self.fail_when_full { "error" } else { "wait" }
    }
}

//! The databases that `bench/everyday/run.sh` built.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::result::{About as _, Failure, Result};

/// The names, in the order of the report, and whether tuning can look at the database.
const NAMES: [(&str, &str); 7] = [
    ("packages", "seen"),
    ("sources", "seen"),
    ("embeddings", "seen"),
    ("sensors", "unseen"),
    ("events", "unseen"),
    ("search", "seen"),
    ("flights", "seen"),
];

/// What the builder says about a database.
#[derive(Deserialize)]
struct Built {
    /// Whether it is the one of `bench/everyday/databases.json`
    recorded: bool,
    /// Why there is none
    missing: Option<String>,
}

/// A database.
pub(super) struct Database {
    pub(super) name: &'static str,
    pub(super) tuning: &'static str,
    pub(super) path: PathBuf,
}

/// The databases in a folder.
pub(super) struct Databases {
    pub(super) found: Vec<Database>,
    /// The names of those whose rows are not the recorded ones
    pub(super) different: Vec<&'static str>,
    /// The names of those that could not be built
    pub(super) missing: Vec<&'static str>,
}

/// Reads what the builder left in `folder`.
///
/// # Errors
/// If it built nothing there.
pub(super) fn built(folder: &Path) -> Result<Databases> {
    let path = folder.join("built.json");
    let text = std::fs::read_to_string(&path).map_err(|e| {
        Failure(format!(
            "{}: {e}: `make bench ONLY=everyday` builds the databases",
            path.display()
        ))
    })?;
    let built: BTreeMap<String, Built> = serde_json::from_str(&text)?;
    let mut databases = Databases {
        found: vec![],
        different: vec![],
        missing: vec![],
    };
    for (name, tuning) in NAMES {
        match built.get(name) {
            Some(Built {
                missing: None,
                recorded,
            }) => {
                let path = folder.join(format!("{name}.db"));
                std::fs::metadata(&path).about("find", &path)?;
                databases.found.push(Database { name, tuning, path });
                if !recorded {
                    databases.different.push(name);
                }
            }
            _ => databases.missing.push(name),
        }
    }
    Ok(databases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_tuning_are_those_of_the_recorded_databases() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/everyday/databases.json");
        let text = std::fs::read_to_string(path).expect("it is there");
        let recorded: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(&text).expect("JSON");
        assert_eq!(recorded.len(), NAMES.len());
        for (name, tuning) in NAMES {
            assert_eq!(recorded[name]["tuning"], tuning, "{name}");
            assert!(
                recorded[name]["bytes"].as_u64() >= Some(40_000_000),
                "{name}"
            );
        }
    }

    #[test]
    fn other_rows_and_missing_databases_are_reported() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(built(dir.path()).is_err());
        let text = r#"{"packages": {"missing": "no lists", "recorded": false},
            "sources": {"bytes": 1, "recorded": true}, "events": {"bytes": 1, "recorded": false}}"#;
        std::fs::write(dir.path().join("built.json"), text).expect("written");
        for name in ["sources", "events"] {
            std::fs::write(dir.path().join(format!("{name}.db")), "").expect("written");
        }
        let databases = built(dir.path()).expect("it is read");
        assert_eq!(databases.different, ["events"]);
        assert_eq!(databases.found.len(), 2);
        let missing = ["packages", "embeddings", "sensors", "search", "flights"];
        assert_eq!(databases.missing, missing);
    }
}

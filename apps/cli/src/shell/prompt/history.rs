//! The history of what was typed, in the user's data directory.
//!
//! Lines that begin with a space, and lines about passwords, are not kept.

use super::helper::Names;
use rustyline::Editor;
use rustyline::history::FileHistory;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// Words of lines that are not kept, as in the shell of MySQL.
const SECRETS: [&str; 4] = ["PASSWORD", "PASSWD", "SECRET", "TOKEN"];

/// The file of the history; without one, the history ends with the shell.
pub(super) struct File(Option<PathBuf>);

/// `DENSITE_HISTORY`, or a file in the data directory by the rules of XDG; none if the variable is
/// empty.
fn path() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("DENSITE_HISTORY") {
        return (!named.is_empty()).then(|| named.into());
    }
    let absolute = |name| {
        let dir = PathBuf::from(std::env::var_os(name)?);
        dir.is_absolute().then_some(dir)
    };
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    Some(data?.join("densite").join("history"))
}

fn is_secret(line: &str) -> bool {
    let line = line.to_ascii_uppercase();
    line.starts_with(' ') || SECRETS.iter().any(|word| line.contains(word))
}

impl File {
    /// Finds the file, and loads what it has.
    pub(super) fn load(editor: &mut Editor<Names, FileHistory>) -> File {
        let path = path().filter(|path| {
            let dir = path.parent();
            let made = dir.map(|dir| {
                let mut builder = std::fs::DirBuilder::new();
                builder.recursive(true).mode(0o700).create(dir)
            });
            made.is_some_and(|made| made.is_ok())
        });
        if let Some(path) = &path {
            // There is none at first. A damaged one begins again.
            editor.load_history(path).ok();
        }
        File(path)
    }

    /// Adds what was typed, at once: the shell can be killed.
    pub(super) fn add(&mut self, editor: &mut Editor<Names, FileHistory>, typed: &str) {
        if typed.trim().is_empty() || is_secret(typed) {
            return;
        }
        // Without its history the shell works on.
        let is_new = editor.add_history_entry(typed).unwrap_or(false);
        if let Some(path) = self.0.as_ref().filter(|_| is_new) {
            editor.append_history(path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_kept() {
        for line in [
            " SELECT 1;",
            "ALTER USER a SET Password = 'x';",
            ".parameter set token x",
        ] {
            assert!(is_secret(line), "{line}");
        }
        assert!(!is_secret("SELECT 1;"));
    }
}

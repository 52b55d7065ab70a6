//! Which copy of a database ships: a random number in a file beside it.
//!
//! A database that was restored or copied has the same contents as the one that it came from, so
//! nothing in it says which of the two ships to a replica. The file `NAME-replica` does: a copy does
//! not have it. A vacuum or a conversion keeps it, so that shipping goes on.

use crate::error::{Error, Result};
use crate::target::beside;
use crate::temp::Temp;
use densite_disk::{File as _, SyncKind, random::random_u64};
use std::io::ErrorKind;
use std::path::Path;

/// The ending of the file's name.
const FILE: &str = "-replica";
/// Bytes of the number as text.
const LEN: usize = 16;

/// The number of the database at `db`. It gets one if it has none.
///
/// # Errors
/// If the file cannot be read or written, or is no such file.
pub(super) fn owner(db: &Path) -> Result<String> {
    let path = beside(db, FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) if is_number(text.trim_end()) => return Ok(text.trim_end().to_owned()),
        Ok(_) => {
            return Err(Error::Setting(format!(
                "{}: this file is not of densite replicate; move it away",
                path.display()
            )));
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(Error::from_std(&path, "read it", &e)),
    }
    let number = random_u64().map_err(|e| Error::from_disk(&path, "create", &e))?;
    let text = format!("{number:016x}");
    let mut temp = Temp::create_own(&path, 0o666)?;
    let file = temp.open()?;
    let written = file
        .write_at(format!("{text}\n").as_bytes(), 0)
        .and_then(|()| file.sync(SyncKind::Full));
    written.map_err(|e| Error::from_disk(&path, "write", &e))?;
    match temp.rename_to(&path) {
        Ok(()) => Ok(text),
        // Another process was faster.
        Err(Error::Exists { .. }) => owner(db),
        Err(e) => Err(e),
    }
}

fn is_number(text: &str) -> bool {
    text.len() == LEN && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_keeps_its_number_and_a_copy_has_another() {
        let dir = tempfile::tempdir().expect("a directory");
        let (db, copy) = (dir.path().join("a.db"), dir.path().join("b.db"));
        let number = owner(&db).expect("a number");
        assert!(is_number(&number));
        assert_eq!(owner(&db).expect("a number"), number);
        assert_ne!(owner(&copy).expect("a number"), number);
        std::fs::write(beside(&db, FILE), "notes").expect("written");
        assert!(matches!(owner(&db), Err(Error::Setting(_))));
    }
}

//! The names of the files beside a database.
//!
//! SQLite appends these endings to a database's name. Densite's journal and WAL have endings of
//! their own: a program that knows only SQLite's format would play a file with one of SQLite's
//! names into the database before it reads a byte of it
//! ([why](../../../docs/decisions/companion-names.md)).
//!
//! SQLite derives the permissions of a journal or WAL from the file whose name ends before the last
//! `-`. So an ending has one `-`, at its start, and then letters only.

/// The ending of the shared memory of any database: the host makes it from the database's name.
pub const SHM: &str = "-shm";

/// The endings of a journal and a WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Companions {
    /// That of the rollback journal.
    pub journal: &'static str,
    /// That of the WAL.
    pub wal: &'static str,
}

impl Companions {
    /// Those of a plain database: SQLite's.
    pub const PLAIN: Companions = Companions {
        journal: "-journal",
        wal: "-wal",
    };
    /// Those of a Densite file.
    pub const DENSITE: Companions = Companions {
        journal: "-djournal",
        wal: "-dwal",
    };
    /// The endings of all files that can be beside a database.
    pub const ALL: [&'static str; 5] = [
        Self::PLAIN.journal,
        Self::PLAIN.wal,
        Self::DENSITE.journal,
        Self::DENSITE.wal,
        SHM,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permissions_of_a_companion_can_be_derived() {
        for ending in Companions::ALL {
            let letters = ending.strip_prefix('-').expect("a dash");
            assert!(
                letters.bytes().all(|b| b.is_ascii_alphanumeric()),
                "{ending}"
            );
        }
    }
}

//! The text of each error: what is wrong, with which file, and what to do.

use super::Error;
use std::fmt;

/// Formats a number of bytes for a user, to a tenth of a unit.
fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} bytes");
    }
    let mut value = n as f64;
    let mut unit = "";
    for u in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = u;
    }
    format!("{value:.1} {unit}")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound { path } => {
                let mistaken = densite_vfs::mistaken_url(&path.to_string_lossy());
                let why = mistaken
                    .unwrap_or_else(|| "there is no such file or directory; check the path".into());
                write!(f, "{}: {why}", path.display())
            }
            Error::IsDirectory { path } => {
                write!(
                    f,
                    "{} is a directory, not a database; name the database file in it, or a replica with a slash at its end",
                    path.display()
                )
            }
            Error::Permission { path, doing } => write!(
                f,
                "{}: no permission to {doing}, or its file system is read-only; check its owner and mode",
                path.display()
            ),
            Error::NotADatabase { path, empty: true } => {
                write!(
                    f,
                    "{} is empty and holds no database; check the path",
                    path.display()
                )
            }
            Error::NotADatabase { path, empty: false } => {
                write!(
                    f,
                    "{} is not a SQLite database or is encrypted; check the path",
                    path.display()
                )
            }
            Error::OtherFormat { path, version } => {
                write!(
                    f,
                    "{}: its header has the format version {version}, and SQLite reads 1 and 2: a program that extends SQLite's format wrote it, and can give it back to SQLite (Turso with PRAGMA journal_mode = wal)",
                    path.display()
                )
            }
            #[cfg(feature = "chroma")]
            Error::NotChroma { path } => {
                write!(
                    f,
                    "{} does not have Chroma's tables, so its directory is not a Chroma directory; check the path, or name the file itself to treat it as an ordinary database",
                    path.display()
                )
            }
            Error::AlreadyCompressed { path } => {
                write!(
                    f,
                    "{} is compressed already; it was not changed",
                    path.display()
                )
            }
            Error::AlreadyPlain { path } => {
                write!(
                    f,
                    "{} is a plain SQLite database already; it was not changed",
                    path.display()
                )
            }
            Error::Exists { path } => write!(
                f,
                "{} exists already and was not changed; choose another destination, or move it away first",
                path.display()
            ),
            Error::SeveralLinks { path, links } => write!(
                f,
                "{} has {links} names (hard links), and replacing one would separate it from the others; remove the other names first, or (compress, decompress) give a destination",
                path.display()
            ),
            Error::NoLog { path } => write!(
                f,
                "{} has no log; SELECT densite_subscribe() or a densite_ingest virtual table creates one",
                path.display()
            ),
            Error::Log { path, message, .. } => write!(f, "{}: {message}", path.display()),
            Error::Locked { path, by } => {
                write!(f, "{} is locked", path.display())?;
                if by.is_empty() {
                    f.write_str(" by another connection")?;
                }
                for (i, holder) in by.iter().enumerate() {
                    f.write_str(if i == 0 { " by " } else { " and " })?;
                    write!(f, "{holder}")?;
                }
                f.write_str("; close the database there or try again later")
            }
            Error::NoSpace {
                dir,
                needed,
                available,
            } => {
                // Not "." alone.
                let dir = dir.canonicalize().unwrap_or_else(|_| dir.clone());
                write!(f, "there is not enough disk space in {}", dir.display())?;
                if let (Some(needed), Some(available)) = (needed, available) {
                    write!(
                        f,
                        ": up to {} needed, {} available",
                        bytes(*needed),
                        bytes(*available)
                    )?;
                }
                f.write_str("; free some disk space and try again")
            }
            Error::Damaged { path, what } => {
                write!(
                    f,
                    "{} is damaged: {what}; restore it from a backup",
                    path.display()
                )
            }
            Error::Replica { path, what } => write!(f, "{}: {what}", path.display()),
            Error::KnownProgram { path, program } => write!(
                f,
                "{} is a database of {program}, which opens it with a SQLite of its own and could not open it compressed (\"file is not a database\"); it was not changed; densite vacuum makes it smaller and keeps its form; give a destination to compress a copy, or say that the program does not matter (--known-program, known_program) to compress it all the same",
                path.display()
            ),
            Error::Larger {
                path,
                plain,
                compressed,
            } => write!(
                f,
                "{}: compressed it would have {compressed} bytes instead of {plain}, so it was left as it is; give a destination to compress a copy, or --even-if-larger to compress it all the same",
                path.display()
            ),
            Error::FreePagesInUse { path, pages, first } => write!(
                f,
                "{} is damaged: its list of free pages names pages that tables use ({pages}; page {first} is the first), and without them rows would be lost; repair it with densite vacuum, or, without auto_vacuum, compress it with --keep-damage",
                path.display()
            ),
            Error::NewerFormat {
                path,
                found,
                supported,
            } => write!(
                f,
                "{} has format version {found}, but this program reads versions up to {supported}; use a newer Densite",
                path.display()
            ),
            Error::Interrupted { path } => {
                write!(f, "interrupted; {} was not changed", path.display())
            }
            Error::Unsupported(what)
            | Error::Setting(what)
            | Error::Remote { message: what, .. } => f.write_str(what),
            Error::Io {
                path,
                doing,
                message,
            } => {
                write!(f, "cannot {doing} {}: {message}", path.display())
            }
            Error::Sqlite {
                path,
                code,
                message,
            } => {
                write!(
                    f,
                    "{}: SQLite says: {message} (code {code})",
                    path.display()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holder::Holder;

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
    }

    #[test]
    fn locked_names_every_holder() {
        let by = vec![
            Holder {
                pid: 7,
                name: Some("python3".into()),
            },
            Holder { pid: 9, name: None },
        ];
        let e = Error::Locked {
            path: "a.db".into(),
            by,
        };
        assert_eq!(
            e.to_string(),
            "a.db is locked by process 7 (python3) and process 9; close the database there or try again later"
        );
        assert_eq!(e.class(), crate::ErrorClass::Locked);
    }
}

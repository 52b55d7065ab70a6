//! Connections and raw files of a database, by path.

use crate::error::{Error, Result};
use crate::holders::holders;
use densite_sqlite::{self as sqlite, Api, Code, Connection, HostFile, HostVfs, ffi};
use std::ffi::CString;
use std::path::Path;

/// Which VFS reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    /// The host's: bytes as they are stored.
    Host,
    /// Ours: logical bytes of a compressed file.
    Densite,
}

/// Whether a file is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// For reading.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading, by a promise that nobody changes it: no locks, nothing beside it.
    Immutable,
}

impl Through {
    /// The registered VFS.
    pub(crate) fn vfs(self, api: Api) -> Result<HostVfs> {
        let found = match self {
            Through::Host => densite_vfs::host_vfs(api),
            Through::Densite => HostVfs::find(api, Some(densite_vfs::NAME)),
        };
        found.ok_or_else(|| {
            Error::Setting(
                "the VFS \"densite\" is not registered with this SQLite; load the extension first"
                    .into(),
            )
        })
    }

    /// Opens the file itself, without SQLite's connection on top. Every access to a database goes
    /// through the VFS: closing a descriptor of our own would drop the locks that other connections
    /// of this process hold.
    pub(crate) fn file(self, api: Api, path: &Path, access: Access) -> Result<HostFile> {
        let mode = match access {
            Access::Read | Access::Immutable => ffi::OPEN_READONLY,
            Access::Write => ffi::OPEN_READWRITE,
        };
        let parameters: &[_] = match self {
            Through::Host => &[],
            Through::Densite => &[(c"maintain", c"off")],
        };
        let (file, got) = self
            .vfs(api)?
            .open_path(&c_path(path)?, parameters, ffi::OPEN_MAIN_DB | mode)
            .map_err(|e| from_sqlite(path, e))?;
        // The host falls back to reading when it may not write.
        if access == Access::Write && got & ffi::OPEN_READWRITE == 0 {
            return Err(Error::Permission {
                path: path.to_path_buf(),
                doing: "write to it".into(),
            });
        }
        Ok(file)
    }

    /// Opens a connection.
    pub(crate) fn connect(
        self,
        api: Api,
        path: &Path,
        access: Access,
        busy_ms: i32,
    ) -> Result<Connection> {
        let mut parameters = Vec::new();
        if self == Through::Densite {
            parameters.push(("maintain", "off"));
        }
        if access == Access::Immutable {
            parameters.push(("immutable", "1"));
        }
        let name = uri(path, &parameters)?;
        let vfs = self.vfs(api)?.name();
        let vfs = CString::new(vfs).unwrap_or_default();
        let mode = match access {
            Access::Read | Access::Immutable => ffi::OPEN_READONLY,
            Access::Write => ffi::OPEN_READWRITE,
        };
        let db = Connection::open(
            api,
            &name,
            mode | ffi::OPEN_URI | ffi::OPEN_NOMUTEX,
            Some(&vfs),
        )
        .map_err(|e| from_sqlite(path, e))?;
        db.busy_timeout(busy_ms).map_err(|e| from_sqlite(path, e))?;
        Ok(db)
    }
}

/// A `file:` URI for a path: what could be taken for its syntax is written as `%XX`.
pub(crate) fn uri(path: &Path, parameters: &[(&str, &str)]) -> Result<String> {
    use std::fmt::Write as _;
    let text = utf8(path)?;
    let mut uri = String::from("file:");
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(byte))
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    for (i, (key, value)) in parameters.iter().enumerate() {
        let _ = write!(uri, "{}{key}={value}", if i == 0 { '?' } else { '&' });
    }
    Ok(uri)
}

/// The path as text; SQLite's names are UTF-8.
pub(crate) fn utf8(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::Setting(format!(
            "{}: SQLite needs file names in UTF-8; rename it first",
            path.display()
        ))
    })
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(utf8(path)?).map_err(|_| Error::NotFound {
        path: path.to_path_buf(),
    })
}

/// What SQLite said, shaped by what the caller can do.
pub(crate) fn from_sqlite(path: &Path, e: sqlite::Error) -> Error {
    let p = path.to_path_buf();
    // SQLite has only a few words for what our VFS refuses; the VFS keeps a sentence.
    let said = densite_vfs::take_last_error();
    match e.code.primary() {
        // Shared memory is a file that grows by writing, which fails for want of space.
        _ if e.code == Code::IOERR_SHMSIZE => Error::NoSpace {
            dir: crate::error::parent_of(path),
            needed: None,
            available: None,
        },
        Code::BUSY | Code::LOCKED => Error::Locked {
            by: holders(path),
            path: p,
        },
        Code::FULL => Error::NoSpace {
            dir: crate::error::parent_of(path),
            needed: None,
            available: None,
        },
        Code::CORRUPT => Error::Damaged {
            path: p,
            what: said.unwrap_or(e.message),
        },
        _ if said.is_some() => Error::Sqlite {
            path: p,
            code: e.code.0,
            message: said.unwrap_or_default(),
        },
        Code::NOTADB => Error::NotADatabase {
            path: p,
            empty: false,
        },
        Code::CANTOPEN | Code::PERM => Error::Permission {
            path: p,
            doing: "open it and the files SQLite keeps beside it".into(),
        },
        Code::READONLY => Error::Permission {
            path: p,
            doing: "write to it".into(),
        },
        _ => Error::Sqlite {
            path: p,
            code: e.code.0,
            message: e.message,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_cannot_become_syntax() {
        let uri = uri(
            Path::new("/a b/?x#%.db"),
            &[("level", "3"), ("threads", "0")],
        )
        .expect("UTF-8");
        assert_eq!(uri, "file:/a%20b/%3Fx%23%25.db?level=3&threads=0");
    }
}

//! Opens connections and raw files of a database by path.

use crate::error::is_remote;
use crate::error::{Error, Result};
use crate::holders::holders;
use crate::target::Target;
use densite_sqlite::{self as sqlite, Api, Code, Companions, Connection, HostFile, HostVfs, ffi};
use std::ffi::CString;
use std::path::Path;
use std::time::Duration;

/// The VFS that reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    /// The VFS of the host: bytes as stored.
    Host,
    /// The VFS "densite": logical bytes of a compressed file.
    Densite,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read only.
    Read,
    /// Read and write. The file must exist.
    Write,
    /// Read only, with the promise that no process changes it: without locks and companion files.
    Immutable,
}

impl Through {
    /// Returns the registered VFS.
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

    /// The endings of the journal and the WAL of a database that is read through this VFS because of
    /// its form.
    pub(crate) fn companions(self) -> Companions {
        match self {
            Through::Host => Companions::PLAIN,
            Through::Densite => Companions::DENSITE,
        }
    }

    /// Opens the file itself, without a connection of SQLite. Every access to a database goes
    /// through the VFS: closing a separate descriptor would drop the locks of other connections of
    /// this process.
    pub(crate) fn file(self, api: Api, target: &Target, access: Access) -> Result<HostFile> {
        if let (Through::Host, Some(remote)) = (self, &target.remote) {
            return Ok(remote.file.host_file());
        }
        let path = target.path.as_path();
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
            .open_path(
                &c_path(target.name()?)?,
                parameters,
                ffi::OPEN_MAIN_DB | mode,
            )
            .map_err(|e| from_sqlite(path, e))?;
        // The host opens the file for reading if it has no permission to write.
        if access == Access::Write && got & ffi::OPEN_READWRITE == 0 {
            return Err(Error::Permission {
                path: path.to_path_buf(),
                doing: "write to it".into(),
            });
        }
        Ok(file)
    }

    /// Opens a connection. `busy` is SQLite's busy timeout.
    pub(crate) fn connect(
        self,
        api: Api,
        target: &Target,
        access: Access,
        busy: Duration,
    ) -> Result<Connection> {
        // The host reads no URLs, and the VFS "densite" reads plain databases, too.
        let through = match target.remote {
            Some(_) => Through::Densite,
            None => self,
        };
        through.connect_to(api, (target.name()?, &target.path), access, busy)
    }

    /// The same for a path or URL, and the path for messages.
    pub(crate) fn connect_to(
        self,
        api: Api,
        (name, path): (&str, &Path),
        access: Access,
        busy: Duration,
    ) -> Result<Connection> {
        // What an earlier connection left says nothing of this one.
        let _ = densite_vfs::take_last_error();
        let mut parameters = Vec::new();
        if self == Through::Densite {
            parameters.push(("maintain", "off"));
        }
        if access == Access::Immutable {
            parameters.push(("immutable", "1"));
        }
        let name = uri(name, &parameters);
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
        db.set_busy_timeout(busy)
            .map_err(|e| from_sqlite(path, e))?;
        Ok(db)
    }
}

/// A `file:` URI for a path or URL. Characters with a meaning in URIs are written as `%XX`.
fn uri(name: &str, parameters: &[(&str, &str)]) -> String {
    use std::fmt::Write as _;
    let mut uri = String::from("file:");
    for byte in name.bytes() {
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
    uri
}

fn c_path(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Error::NotFound { path: name.into() })
}

/// Converts an error of SQLite into one that says what the caller can do.
pub(crate) fn from_sqlite(path: &Path, e: sqlite::Error) -> Error {
    let p = path.to_path_buf();
    // SQLite has only a few error codes for errors of our VFS. The VFS keeps the full message.
    // What it kept of an earlier error says nothing of an error in the SQL itself.
    let damage = densite_vfs::last_damage();
    let said = densite_vfs::take_last_error().filter(|_| e.code.primary() != Code::ERROR);
    match e.code.primary() {
        _ if is_remote(path) && said.is_some() && e.code.primary() != Code::CORRUPT => {
            Error::Remote {
                path: p,
                message: said.unwrap_or_default(),
            }
        }
        // Shared memory is a file. Its writes fail if the disk is full.
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
            what: damage.or(said).unwrap_or(e.message),
        },
        Code::CANTOPEN if e.too_many_files().is_some() => Error::Io {
            path: p,
            doing: "open".into(),
            message: e.too_many_files().unwrap_or(&e.message).into(),
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
        let uri = uri("/a b/?x#%.db", &[("level", "3"), ("threads", "0")]);
        assert_eq!(uri, "file:/a%20b/%3Fx%23%25.db?level=3&threads=0");
    }
}

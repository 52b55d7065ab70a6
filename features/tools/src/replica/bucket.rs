//! Where a replica is: a URL of object storage, or a directory.

use crate::error::{Error, Result};
use crate::holders::holders;
use densite_disk::RealDir;
use densite_replica::{Bucket, Error as Wrong, Folder};
use densite_vfs::{is_url, mistaken_url, shown_url};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// So many replicas are named in a message.
const NAMED: usize = 10;

/// A place for a replica, and its name for messages.
pub(super) struct Place {
    bucket: Arc<dyn Bucket>,
    shown: PathBuf,
}

impl Place {
    /// A place to read a replica from.
    pub(super) fn to_read(url: &Path) -> Result<Place> {
        Place::open(url, |dir| {
            // A directory that does not exist has no replica.
            Ok(Folder::reader(Box::new(RealDir::new(dir))))
        })
    }

    /// The same, of which the user says that a replica is there.
    ///
    /// # Errors
    /// [`Error::Setting`] for a file, which is no replica; see [`Place::below`].
    pub(super) fn of_replica(url: &Path) -> Result<Place> {
        match Where::of(url)? {
            Where::Directory if directory(url).is_file() => Err(Error::Setting(format!(
                "{} is a file, not a replica; name the directory or the URL that densite replicate wrote",
                url.display()
            ))),
            _ => Place::to_read(url),
        }
    }

    /// A place to write a replica to. A directory is created.
    pub(super) fn to_write(url: &Path) -> Result<Place> {
        Place::open(url, |dir| {
            std::fs::create_dir_all(dir).map_err(|e| Error::from_std(dir, "create it", &e))?;
            Folder::writer(Box::new(RealDir::new(dir))).map_err(|e| match e {
                Wrong::AnotherWriter { object } => {
                    let by = holders(&dir.join(object));
                    let by = by
                        .first()
                        .map_or("another process".into(), ToString::to_string);
                    Error::Remote {
                        message: format!(
                            "{}: {by} ships to this directory; end it, or use another directory",
                            dir.display()
                        ),
                        path: dir.to_path_buf(),
                    }
                }
                e => failed(dir, &e),
            })
        })
    }

    /// The names of the replicas right below a URL or a directory, in their order.
    ///
    /// # Errors
    /// [`Error::Remote`], [`Error::NotFound`], [`Error::Io`]; [`Error::Setting`] for a URL that is
    /// not understood.
    pub(super) fn below(url: &Path) -> Result<Vec<String>> {
        let text = url.to_string_lossy();
        if let Where::Url = Where::of(url)? {
            let folders = folders(&text).map_err(|message| Error::Remote {
                path: PathBuf::from(shown_url(&text)),
                message,
            })?;
            // Other objects can lie beside replicas.
            let mut names = Vec::new();
            for name in folders {
                let url = format!("{}/{name}", text.trim_end_matches('/'));
                let Ok(place) = Place::to_read(Path::new(&url)) else {
                    continue;
                };
                if place.has_replica()? {
                    names.push(name);
                }
            }
            return Ok(names);
        }
        let dir = directory(url);
        let failed = |e| Error::from_std(dir, "read it", &e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let has_head = entry.path().join(densite_replica::HEAD).is_file();
            // A folder that cannot be read is of something else.
            let has_objects =
                || Place::to_read(&entry.path()).and_then(|place| place.has_replica());
            if (has_head || (entry.path().is_dir() && has_objects().unwrap_or(false)))
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn open(url: &Path, folder: impl FnOnce(&Path) -> Result<Folder>) -> Result<Place> {
        let text = url.to_string_lossy();
        if let Where::Url = Where::of(url)? {
            let shown = PathBuf::from(shown_url(&text));
            let bucket = bucket(&text).map_err(|message| Error::Remote {
                path: shown.clone(),
                message,
            })?;
            return Ok(Place {
                bucket: bucket.into(),
                shown,
            });
        }
        let dir = directory(url);
        let bucket = folder(dir)?;
        Ok(Place {
            bucket: Arc::new(bucket),
            shown: dir.to_path_buf(),
        })
    }

    /// The name of a place for messages: a URL without secrets, or the directory.
    pub(super) fn shown_name(url: &Path) -> PathBuf {
        let text = url.to_string_lossy();
        match is_url(&text) {
            true => shown_url(&text).into(),
            false => directory(url).into(),
        }
    }

    /// What a message calls a place that is shipped to: a directory with its whole path.
    pub(super) fn described(url: &Path) -> String {
        let shown = Place::shown_name(url);
        match is_url(&shown.to_string_lossy()) {
            true => shown.display().to_string(),
            false => {
                let whole = std::path::absolute(&shown).unwrap_or(shown);
                format!("the directory {}", whole.display())
            }
        }
    }

    /// Whether a replica is there, with its head or without it.
    ///
    /// # Errors
    /// As [`Place::below`].
    pub(super) fn has_replica(&self) -> Result<bool> {
        densite_replica::exists(self.bucket()).map_err(|e| self.failed(&e))
    }

    pub(super) fn bucket(&self) -> &dyn Bucket {
        &*self.bucket
    }

    pub(super) fn shared(&self) -> Arc<dyn Bucket> {
        Arc::clone(&self.bucket)
    }

    /// The URL without secrets, or the directory.
    pub(super) fn shown(&self) -> &Path {
        &self.shown
    }

    /// An error of the replica that is read from `url`. Where replicas are right below, it names
    /// them.
    pub(super) fn unread(&self, url: &Path, e: &Wrong) -> Error {
        let below = match e {
            Wrong::NoReplica => Place::below(url).unwrap_or_default(),
            _ => Vec::new(),
        };
        match named(&self.shown, &below, "") {
            Some(message) => Error::Remote {
                message: format!("{}: {message}", without_slash(&self.shown)),
                path: self.shown.clone(),
            },
            None => self.failed(e),
        }
    }

    /// An error of the replica.
    pub(super) fn failed(&self, e: &Wrong) -> Error {
        failed(&self.shown, e)
    }
}

#[cfg(feature = "remote")]
use densite_vfs::{bucket, folders};

#[cfg(not(feature = "remote"))]
fn bucket(url: &str) -> std::result::Result<Box<dyn Bucket>, String> {
    Err(densite_vfs::without_remote(url))
}

#[cfg(not(feature = "remote"))]
fn folders(url: &str) -> std::result::Result<Vec<String>, String> {
    Err(densite_vfs::without_remote(url))
}

/// What a name of a place is.
enum Where {
    Url,
    Directory,
}

impl Where {
    /// What this name is.
    ///
    /// # Errors
    /// [`Error::Setting`] for what looks like a URL and is none: it would be a directory of this name.
    fn of(name: &Path) -> Result<Where> {
        let text = name.to_string_lossy();
        if is_url(&text) {
            return Ok(Where::Url);
        }
        let why = match text.strip_prefix("file") {
            Some(rest) if rest.starts_with("://") => None,
            Some(rest) if rest.starts_with([':', '/']) => {
                Some(format!("write file:/// for a URL, or ./{text} for a path"))
            }
            _ => mistaken_url(&text),
        };
        match why {
            None => Ok(Where::Directory),
            Some(why) => Err(Error::Setting(format!(
                "{text}: {why}; use s3://BUCKET/PREFIX, file:///DIRECTORY or a directory"
            ))),
        }
    }
}

/// What to do about replicas right below a place, with an example of a name, which ends with `end`.
/// `None` if there are none.
pub(super) fn named(place: &Path, below: &[String], end: &str) -> Option<String> {
    let first = below.first()?;
    let place = without_slash(place);
    let what = match below {
        [one] => format!("the replica here is below this: {one}"),
        some if some.len() <= NAMED => {
            format!("the replicas here are below this: {}", some.join(", "))
        }
        many => format!(
            "the replicas here are below this: {} and {} more",
            many.get(..NAMED).unwrap_or_default().join(", "),
            many.len() - NAMED
        ),
    };
    Some(format!(
        "{what}; name one, as in {place}/{first}{end}, or restore all of them to a directory: densite restore {place} DIRECTORY/"
    ))
}

fn without_slash(place: &Path) -> String {
    place.display().to_string().trim_end_matches('/').to_owned()
}

/// The directory of a name that is no URL of a bucket.
fn directory(url: &Path) -> &Path {
    let dir = url.as_os_str().as_bytes().strip_prefix(b"file://");
    dir.map_or(url, |dir| Path::new(OsStr::from_bytes(dir)))
}

/// The error of a database that cannot be read while it is shipped to this place.
fn unsent(path: PathBuf, message: &str, advice: &str) -> Error {
    Error::Remote {
        message: format!(
            "{}: nothing is sent there, because the database cannot be read ({message}){advice}",
            path.display()
        ),
        path,
    }
}

/// An error of a replica as an error of a verb.
fn failed(shown: &Path, e: &Wrong) -> Error {
    let path = shown.to_path_buf();
    match e {
        Wrong::Stopped => Error::Interrupted { path },
        Wrong::Newer {
            found, supported, ..
        } => Error::NewerFormat {
            path,
            found: *found,
            supported: *supported,
        },
        Wrong::Damaged { .. }
        | Wrong::HeadLost { .. }
        | Wrong::Missing(_)
        | Wrong::BaseLost { .. }
        | Wrong::Gap { .. }
        | Wrong::SourceDamaged(_) => Error::Replica {
            path,
            what: e.to_string(),
        },
        // It says nothing of the place that is shipped to.
        Wrong::Source(message) => unsent(path, message, ""),
        Wrong::SourceFull(message) => unsent(path, message, "; free some space on its own disk"),
        _ => Error::Remote {
            message: format!("{}: {e}", shown.display()),
            path,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(e: &Wrong) -> String {
        failed(Path::new("/backup"), e).to_string()
    }

    #[test]
    fn a_full_disk_of_the_database_is_named_apart_from_that_of_the_replica() {
        let full = densite_disk::Error::new(densite_disk::ErrorKind::Full, densite_disk::Op::Read);
        let full = said(&densite_store::Error::Full(full).into());
        assert!(
            full.ends_with("(the disk is full); free some space on its own disk"),
            "{full}"
        );
        // Only the type counts, whatever the words.
        let other = said(&Wrong::Source("no page says that the disk is full".into()));
        assert!(!other.contains("free some space"), "{other}");
    }

    #[test]
    fn the_place_is_named_once() {
        let said = said(&Wrong::Bucket("/backup was removed".into()));
        assert_eq!(said, "/backup: /backup was removed");
    }
}

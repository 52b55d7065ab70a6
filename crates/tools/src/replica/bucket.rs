//! Where a replica is: a URL of object storage, or a directory.

use crate::error::{Error, Result};
use crate::holders::holders;
use densite_disk::RealDir;
use densite_replica::{Bucket, Error as Wrong, Folder};
use densite_vfs::{is_url, shown_url};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A place for a replica, and its name for messages.
pub(super) struct Place {
    bucket: Arc<dyn Bucket>,
    shown: PathBuf,
}

impl Place {
    /// A place to read a replica from.
    pub(super) fn to_read(url: &Path) -> Result<Place> {
        Place::open(url, |dir, name| {
            // A directory that does not exist has no replica.
            Ok(Folder::reader(Box::new(RealDir::new(dir)), name))
        })
    }

    /// A place to write a replica to. A directory is created.
    pub(super) fn to_write(url: &Path) -> Result<Place> {
        Place::open(url, |dir, name| {
            std::fs::create_dir_all(dir).map_err(|e| Error::from_std(dir, "create it", &e))?;
            Folder::writer(Box::new(RealDir::new(dir)), name).map_err(|e| match e {
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
        if is_url(&text) {
            let folders = densite_vfs::folders(&text).map_err(|message| Error::Remote {
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
                let head = place.bucket().get(densite_replica::HEAD);
                if head.map_err(|e| place.failed(&e))?.is_some() {
                    names.push(name);
                }
            }
            return Ok(names);
        }
        let dir = text.strip_prefix("file://").map_or(url, Path::new);
        let failed = |e| Error::from_std(dir, "read it", &e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.path().join(densite_replica::HEAD).is_file()
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn open(url: &Path, folder: impl FnOnce(&Path, &str) -> Result<Folder>) -> Result<Place> {
        let text = url.to_string_lossy();
        if is_url(&text) {
            let shown = PathBuf::from(shown_url(&text));
            let bucket = densite_vfs::bucket(&text).map_err(|message| Error::Remote {
                path: shown.clone(),
                message,
            })?;
            return Ok(Place {
                bucket: bucket.into(),
                shown,
            });
        }
        let dir = text.strip_prefix("file://").map_or(url, Path::new);
        if let Some((scheme, _)) = text.split_once("://").filter(|_| dir == url) {
            return Err(Error::Setting(format!(
                "{text}: {scheme}:// is not known; use s3://BUCKET/PREFIX, file:///DIRECTORY or a directory"
            )));
        }
        let bucket = folder(dir, &dir.to_string_lossy())?;
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
            false => text.strip_prefix("file://").map_or(url, Path::new).into(),
        }
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

    /// An error of the replica.
    pub(super) fn failed(&self, e: &Wrong) -> Error {
        failed(&self.shown, e)
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
        Wrong::Damaged { .. } | Wrong::Missing(_) | Wrong::Gap { .. } | Wrong::SourceDamaged(_) => {
            Error::Replica {
                path,
                what: e.to_string(),
            }
        }
        // These begin with the name of the directory already.
        Wrong::Bucket(message) if message.starts_with(&*shown.to_string_lossy()) => Error::Remote {
            path,
            message: message.clone(),
        },
        _ => Error::Remote {
            message: format!("{}: {e}", shown.display()),
            path,
        },
    }
}

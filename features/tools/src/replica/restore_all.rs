//! Restores all databases of a directory that was shipped.

use super::bucket::Place;
use super::restore::{RestoreOptions, RestoreReport, restore, verify};
use crate::error::{Error, Result};
use crate::progress::Progress;
use densite_sqlite::Api;
use std::path::{Path, PathBuf};

/// What became of one database.
#[derive(Debug)]
#[non_exhaustive]
pub enum RestoredAll {
    /// It was restored, or verified.
    Done(Box<RestoreReport>),
    /// A file of this name exists already, and is unchanged.
    Exists(PathBuf),
    /// It could not be restored. The others can be.
    Failed(PathBuf, Error),
}

/// Restores each replica right below a URL or a directory to its name in the directory `dst`, which
/// is made if it is missing. Databases that exist already are passed over, unless they are replaced: so an
/// interrupted call is repeated. `told` gets what became of each, in the order of their names.
///
/// # Errors
/// [`Error::Remote`] if there is none; [`Error::Interrupted`]. Failures of single databases go to
/// `told`.
pub fn restore_all<P: Progress>(
    api: Api,
    url: &Path,
    options: RestoreOptions,
    dst: &Path,
    progress: &mut P,
    told: &mut dyn FnMut(&mut P, RestoredAll),
) -> Result<()> {
    let names = named(url)?;
    std::fs::create_dir_all(dst).map_err(|e| Error::from_std(dst, "create it", &e))?;
    for name in names {
        let path = dst.join(&name);
        if !options.replaces && std::fs::symlink_metadata(&path).is_ok() {
            told(progress, RestoredAll::Exists(path));
            continue;
        }
        let done = restore(api, &below(url, &name), options, &path, progress);
        tell(path, done, progress, told)?;
    }
    Ok(())
}

/// Verifies each replica right below a URL or a directory, without keeping what was restored.
///
/// # Errors
/// As [`restore_all`].
pub fn verify_all<P: Progress>(
    api: Api,
    url: &Path,
    options: RestoreOptions,
    progress: &mut P,
    told: &mut dyn FnMut(&mut P, RestoredAll),
) -> Result<()> {
    for name in named(url)? {
        let from = below(url, &name);
        let done = verify(api, &from, options, progress);
        tell(PathBuf::from(name), done, progress, told)?;
    }
    Ok(())
}

fn tell<P>(
    path: PathBuf,
    done: Result<RestoreReport>,
    progress: &mut P,
    told: &mut dyn FnMut(&mut P, RestoredAll),
) -> Result<()> {
    let result = match done {
        Ok(report) => RestoredAll::Done(Box::new(report)),
        Err(e @ Error::Interrupted { .. }) => return Err(e),
        Err(e) => RestoredAll::Failed(path, e),
    };
    told(progress, result);
    Ok(())
}

/// The names of the replicas; there is at least one.
fn named(url: &Path) -> Result<Vec<String>> {
    let place = Place::of_replica(url)?;
    let names = Place::below(url)?;
    match names.is_empty() {
        false => Ok(names),
        true => {
            let path = place.shown().to_path_buf();
            let why = match place.has_replica()? {
                true => "this is the replica of one database, so the copy needs the name of a file",
                false => {
                    "there are no replicas below this; densite replicate DIRECTORY URL makes one of each database"
                }
            };
            let message = format!("{}: {why}", path.display());
            Err(Error::Remote { path, message })
        }
    }
}

fn below(url: &Path, name: &str) -> PathBuf {
    let text = url.to_string_lossy();
    PathBuf::from(format!("{}/{name}", text.trim_end_matches('/')))
}

//! Which processes have a Chroma directory open.

use super::dir::ChromaDir;
use crate::holder::Holder;
use crate::holders::name_of;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Other processes that have the database or any file of the directory open, lock or no lock, as
/// far as this user may see: those of other users are seen by root only.
///
/// A process that starts after this was asked is not among them; who replaces the database asks
/// with it locked.
pub fn users(dir: &ChromaDir) -> Vec<Holder> {
    let inode = |path: PathBuf| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.dev(), meta.ino()))
    };
    let database = inode(dir.database());
    let folder = std::fs::canonicalize(dir.dir()).ok();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let me = std::process::id();
    let mut found = Vec::new();
    for pid in processes
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != me)
    {
        let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        // Files by their names: what lies in the folders of the segments. The database by its
        // identity: it may have several names.
        let uses = files.flatten().map(|e| e.path()).any(|link| {
            let named = match (std::fs::read_link(&link), &folder) {
                (Ok(path), Some(folder)) => path.starts_with(folder) && path.is_file(),
                _ => false,
            };
            named || (database.is_some() && inode(link) == database)
        });
        if uses {
            found.push(Holder {
                pid,
                name: name_of(pid),
            });
        }
    }
    found.sort_by_key(|holder| holder.pid);
    found
}

//! Lists the processes that have a Chroma directory open.

use super::dir::ChromaDir;
use crate::holder::Holder;
use crate::holders::name_of;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Other processes that have the database or any file of the directory open, with or without a
/// lock. Only root sees the processes of other users.
///
/// A process that opens a file after this call is not in the list. Therefore the caller must hold
/// the lock of the database before it replaces the file.
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
        // Files in the folders of the segments are compared by path. The database is compared by
        // device and inode, because it can have several names.
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

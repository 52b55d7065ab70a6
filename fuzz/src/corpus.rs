//! Saved inputs: files in a folder for each target.

use crate::targets;
use densite_fuzz::Target;
use std::fs;
use std::path::{Path, PathBuf};

/// The corpus of the project.
pub(crate) const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");

/// Seeds of more bytes than this are not saved; each run makes them.
const KEPT: usize = 48 << 10;

/// An input, and where it comes from.
pub(crate) struct Input {
    pub(crate) target: Target,
    pub(crate) from: String,
    pub(crate) bytes: Vec<u8>,
}

/// A random seed.
pub(crate) fn any_seed() -> u64 {
    rand::random()
}

fn why(what: &str, path: &Path, e: &std::io::Error) -> String {
    format!("cannot {what} {}: {e}", path.display())
}

/// Writes every target's valid inputs.
pub(crate) fn write_seeds(dir: &Path) -> Result<(), String> {
    for target in densite_fuzz::all() {
        let dir = dir.join(target.name);
        fs::create_dir_all(&dir).map_err(|e| why("make", &dir, &e))?;
        for (name, bytes) in (target.seeds)().iter().filter(|s| s.1.len() <= KEPT) {
            let path = dir.join(name);
            fs::write(&path, bytes).map_err(|e| why("write", &path, &e))?;
        }
    }
    Ok(())
}

/// The files in a folder, by name.
fn files(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let list = fs::read_dir(dir).map_err(|e| why("read", dir, &e))?;
    let mut files: Vec<PathBuf> = list.filter_map(|e| e.ok().map(|e| e.path())).collect();
    files.sort();
    Ok(files)
}

/// The saved inputs of one target; without a folder, no inputs.
pub(crate) fn of(target: &Target, corpus: &Path) -> Result<Vec<Input>, String> {
    let dir = corpus.join(target.name);
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    files(&dir)?.iter().map(|path| one(path, *target)).collect()
}

fn one(path: &Path, target: Target) -> Result<Input, String> {
    let bytes = fs::read(path).map_err(|e| why("read", path, &e))?;
    Ok(Input {
        target,
        from: path.display().to_string(),
        bytes,
    })
}

/// The inputs to replay. For a file, `target`, its folder or the beginning of its name is its
/// target. For a corpus, the seeds of all targets are added.
pub(crate) fn inputs(path: &Path, target: Option<&str>) -> Result<Vec<Input>, String> {
    if !path.is_dir() {
        let folder = path
            .parent()
            .and_then(Path::file_name)
            .and_then(|n| n.to_str())
            .and_then(targets::find);
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .and_then(|n| n.split('-').next())
            .and_then(targets::find);
        let target = target.and_then(targets::find).or(folder).or(name);
        let target = target.ok_or_else(|| {
            format!(
                "{}: the target is not known; name it with --target",
                path.display()
            )
        })?;
        return Ok(vec![one(path, target)?]);
    }
    let mut all = Vec::new();
    for target in densite_fuzz::all() {
        all.extend(of(target, path)?);
        let seeds = (target.seeds)().into_iter();
        all.extend(seeds.map(|(name, bytes)| Input {
            target: *target,
            from: format!("seed {name} of {}", target.name),
            bytes,
        }));
    }
    Ok(all)
}

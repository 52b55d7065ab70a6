//! TPC-H where memory is short: each process has 400 MiB, the system's cache of its files included,
//! and begins with nothing of the database in that cache.
//!
//! The limit is a control group of the kernel, of version 1 or 2. Making one needs root.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Advice, fadvise};

use crate::result::{About as _, Failure, Result};
use crate::work::{Job, Sample, sample_of};

/// The memory of a process, in bytes.
const LIMIT: u64 = 400 << 20;

/// A control group, which is removed when this is dropped. No process may be left in it then.
struct Group(PathBuf);

impl Group {
    fn create() -> Result<Group> {
        let root = Path::new("/sys/fs/cgroup");
        let version_1 = root.join("memory/memory.limit_in_bytes").exists();
        let (parent, file) = if version_1 {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            (root.to_path_buf(), "memory.max")
        };
        let path = parent.join(format!("densite-bench-{}", std::process::id()));
        let failed = |e: std::io::Error| {
            Failure(format!(
                "cannot limit memory with the control group {}: {e}; run as root, outside of a container",
                path.display()
            ))
        };
        fs::create_dir(&path).map_err(failed)?;
        let group = Group(path.clone());
        fs::write(path.join(file), LIMIT.to_string()).map_err(failed)?;
        Ok(group)
    }

    /// A command that runs in the group.
    fn command(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside
            .args(["-c", r#"echo $$ >"$0" && exec "$@""#])
            .arg(self.0.join("cgroup.procs"))
            .arg(command.get_program())
            .args(command.get_args());
        inside
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that stays limits no other process.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Whether memory can be limited on this machine.
///
/// # Errors
/// The reason why it cannot.
pub(crate) fn check() -> Result<()> {
    Group::create().map(drop)
}

/// Runs a job in a new process with little memory, after the file has left the system's cache.
///
/// # Errors
/// If memory cannot be limited on this machine, and those of the job.
pub(crate) fn run(job: &Job) -> Result<Sample> {
    let file = File::open(&job.file).about("open", &job.file)?;
    // Only pages that are on the disk leave the cache.
    file.sync_all().about("sync", &job.file)?;
    fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(std::io::Error::from)
        .about("drop from the cache", &job.file)?;
    let group = Group::create()?;
    sample_of(&mut group.command(&job.command()?), &job.described())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_in_the_group_which_is_removed_afterwards() {
        let group = match Group::create() {
            Ok(group) => group,
            // A user without the right to make groups, or in a container, learns why.
            Err(why) => {
                let why = why.to_string();
                let begins = why.starts_with("cannot limit memory with the control group /sys");
                assert!(begins && why.contains("run as root"), "{why}");
                return;
            }
        };
        let path = group.0.clone();
        let mut print = Command::new("cat");
        print.arg("/proc/self/cgroup");
        let output = group.command(&print).output().expect("run cat");
        let inside = String::from_utf8_lossy(&output.stdout);
        let name = path.file_name().expect("a name").to_string_lossy();
        assert!(
            output.status.success() && inside.contains(&*name),
            "{inside}"
        );
        drop(group);
        assert!(!path.exists());
    }
}

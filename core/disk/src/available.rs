//! How much memory is available to this process.
//!
//! Linux says so in `/proc/meminfo`, and for the control groups of this process in their folders:
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html> and
//! <https://docs.kernel.org/admin-guide/cgroup-v1/memory.html>.

use std::path::{Path, PathBuf};

/// The bytes of memory that this process can still take before the system must swap, or a control
/// group has reached its limit. Memory that holds copies of files counts as available. `None` if
/// the system does not say so.
pub fn available_memory() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let of_system = field(&meminfo, "MemAvailable:")? << 10;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_groups = folders(&groups).filter_map(|group| group.available());
    Some(of_groups.fold(of_system, u64::min))
}

/// The number after a name in a file of lines.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The names of a version's files.
struct Names {
    /// The limits; the smallest of them holds.
    limits: &'static [&'static str],
    used: &'static str,
    /// In `memory.stat`: memory that holds copies of files, of which the used memory is a part.
    files: [&'static str; 2],
}

const VERSION_2: Names = Names {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    files: ["inactive_file ", "active_file "],
};

const VERSION_1: Names = Names {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file ", "total_active_file "],
};

/// The folder of a control group.
struct Group {
    folder: PathBuf,
    names: &'static Names,
}

/// The control groups of this process that limit memory, from its own to the root.
fn folders(groups: &str) -> impl Iterator<Item = Group> {
    let root = Path::new("/sys/fs/cgroup");
    let of_line = move |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (root, names) = match controllers {
            "" => (root.to_path_buf(), &VERSION_2),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), &VERSION_1)
            }
            _ => return None,
        };
        Some((root, path.trim_start_matches('/').to_owned(), names))
    };
    let lines: Vec<_> = groups.lines().filter_map(of_line).collect();
    lines.into_iter().flat_map(|(root, path, names)| {
        let path = PathBuf::from(path);
        let folders: Vec<PathBuf> = path.ancestors().map(|part| root.join(part)).collect();
        (folders.into_iter()).map(move |folder| Group { folder, names })
    })
}

impl Group {
    fn number(&self, name: &str) -> Option<u64> {
        let text = std::fs::read_to_string(self.folder.join(name)).ok()?;
        text.trim().parse().ok()
    }

    /// `None` if the group has no limit. (Its file then says "max", or names more than any machine
    /// has.)
    fn available(&self) -> Option<u64> {
        let limits = self.names.limits.iter();
        let limit = limits.filter_map(|name| self.number(name)).min()?;
        let used = self.number(self.names.used)?;
        let stat = std::fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let files = self.names.files.iter();
        let files: u64 = files.filter_map(|name| field(&stat, name)).sum();
        Some(limit.saturating_sub(used.saturating_sub(files)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_some_memory() {
        if cfg!(target_os = "linux") {
            let available = available_memory().expect("Linux says so");
            assert!(available > 1 << 20, "{available}");
        }
    }

    #[test]
    fn all_groups_up_to_the_root_count() {
        let names = |groups: &str| -> Vec<String> {
            let folders = folders(groups).map(|group| group.folder.display().to_string());
            folders
                .map(|name| name.trim_end_matches('/').to_owned())
                .collect()
        };
        assert_eq!(
            names("0::/a/b\n"),
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
        );
        assert_eq!(
            names("5:cpu,cpuacct:/x\n4:memory:/c\n"),
            ["/sys/fs/cgroup/memory/c", "/sys/fs/cgroup/memory"]
        );
        assert_eq!(names("0::/\n"), ["/sys/fs/cgroup"]);
        assert!(names("nothing").is_empty());
    }

    #[test]
    fn copies_of_files_count_as_available() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("it is written");
        };
        let group = Group {
            folder: dir.path().to_path_buf(),
            names: &VERSION_2,
        };
        assert_eq!(group.available(), None, "no such group");
        write("memory.max", "max\n");
        write("memory.current", "700\n");
        write(
            "memory.stat",
            "anon 400\ninactive_file 200\nactive_file 50\n",
        );
        assert_eq!(group.available(), None, "no limit");
        write("memory.high", "1000\n");
        assert_eq!(group.available(), Some(1000 - 450));
        write("memory.max", "400\n");
        assert_eq!(group.available(), Some(0), "used up");
    }
}

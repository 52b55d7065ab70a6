//! The machine of a measurement.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::numbers::median;
use crate::result::{About as _, Result};

/// What readers need to judge a figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
    pub(crate) file_system: String,
    /// Median time of a 4 KiB write and its fdatasync in the data's folder
    pub(crate) sync_ms: f64,
    pub(crate) sqlite: String,
    pub(crate) densite: String,
    pub(crate) date: String,
    /// Average load of the last minute before the measurements
    pub(crate) load: f64,
}

impl Machine {
    /// Describes this machine, and the file system of `data`.
    pub(crate) fn describe(data: &Path) -> Result<Machine> {
        let con = rusqlite::Connection::open_in_memory()?;
        Ok(Machine {
            cpu: field("/proc/cpuinfo", "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: field("/proc/meminfo", "MemTotal")
                .and_then(|v| v.strip_suffix("kB")?.trim().parse::<u64>().ok())
                .unwrap_or(0)
                / 1024,
            kernel: format!(
                "Linux {}",
                fs::read_to_string("/proc/sys/kernel/osrelease")
                    .unwrap_or_default()
                    .trim()
            ),
            file_system: file_system(data).unwrap_or_else(|| "unknown".to_owned()),
            sync_ms: sync_ms(data)?,
            sqlite: rusqlite::version().to_owned(),
            densite: con
                .query_row("SELECT densite_version()", [], |r| r.get(0))
                .unwrap_or_else(|_| env!("CARGO_PKG_VERSION").to_owned()),
            date: con.query_row("SELECT date('now')", [], |r| r.get(0))?,
            load: load(),
        })
    }

    /// One line, without values that change from day to day.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}, {} cores, {:.1} GiB of memory, {}, {}, SQLite {}, Densite {}",
            self.cpu,
            self.cores,
            self.memory_mib as f64 / 1024.0,
            self.kernel,
            self.file_system,
            self.sqlite,
            self.densite
        )
    }
}

/// The average number of runnable processes in the last minute.
pub(crate) fn load() -> f64 {
    fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|s| s.split(' ').next()?.parse().ok())
        .unwrap_or(0.0)
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|l| {
        let (key, value) = l.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The type of the file system with the longest mount point above `path`.
fn file_system(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut words = mounts.lines().filter_map(|l| {
        let mut w = l.split(' ').skip(1);
        Some((w.next()?, w.next()?))
    });
    let mut best: Option<(&str, &str)> = None;
    for (point, kind) in words.by_ref() {
        if path.starts_with(point) && best.is_none_or(|(b, _)| b.len() <= point.len()) {
            best = Some((point, kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

fn sync_ms(dir: &Path) -> Result<f64> {
    use std::io::Write as _;
    let path = dir.join("sync-probe");
    let mut file = fs::File::create(&path).about("create", &path)?;
    let mut times = Vec::new();
    for _ in 0..50 {
        file.write_all(&[0x5a; 4096]).about("write", &path)?;
        let start = Instant::now();
        file.sync_data().about("sync", &path)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    fs::remove_file(&path).about("remove", &path)?;
    Ok(median(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let machine = Machine::describe(dir.path()).expect("a description");
        assert!(machine.cores >= 1 && machine.memory_mib > 0 && machine.sync_ms >= 0.0);
        assert!(!machine.cpu.is_empty() && machine.line().contains("SQLite 3."));
        assert_eq!(machine.date.len(), 10);
    }
}

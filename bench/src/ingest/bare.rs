//! Bare data syncs: the speed of the disk alone, reported beside every figure.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::outcome::{Compare, Figure};
use crate::result::{About as _, Result};

/// Length of the file in bytes. It is written once, so that a data sync writes no metadata.
const LEN: u64 = 4 << 20;
/// Syncs of a probe, and bytes of each.
const PROBES: usize = 50;
const PROBE_BYTES: usize = 4096;

/// A file that is written and synced repeatedly, and removed at the end.
pub(super) struct Bare {
    path: PathBuf,
    file: File,
    at: u64,
    bytes: Vec<u8>,
}

impl Bare {
    pub(super) fn create(path: &Path) -> Result<Bare> {
        let file = File::create(path).about("create", path)?;
        file.write_all_at(&vec![7; LEN as usize], 0)
            .about("write", path)?;
        file.sync_all().about("sync", path)?;
        Ok(Bare {
            path: path.to_path_buf(),
            file,
            at: 0,
            bytes: Vec::new(),
        })
    }

    /// Writes this many bytes behind the last ones and syncs them.
    pub(super) fn sync(&mut self, bytes: usize) -> Result<()> {
        self.bytes.resize(bytes, 9);
        if self.at + bytes as u64 > LEN {
            self.at = 0;
        }
        self.file
            .write_all_at(&self.bytes, self.at)
            .about("write", &self.path)?;
        self.file.sync_data().about("sync", &self.path)?;
        self.at += bytes as u64;
        Ok(())
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}

/// Times of data syncs, measured before each turn of either side.
#[derive(Default)]
pub(super) struct Rate {
    base: Vec<f64>,
    ours: Vec<f64>,
}

impl Rate {
    /// Measures in `dir`, for the side whose turn follows.
    pub(super) fn probe(&mut self, dir: &Path, is_base: bool) -> Result<()> {
        let mut bare = Bare::create(&dir.join("probe"))?;
        let times = if is_base {
            &mut self.base
        } else {
            &mut self.ours
        };
        for _ in 0..PROBES {
            let from = Instant::now();
            bare.sync(PROBE_BYTES)?;
            times.push(millis(from.elapsed()));
        }
        Ok(())
    }

    /// The medians of both sides.
    pub(super) fn figure(self) -> Figure {
        let name = "beside it, before each turn: a bare data sync of 4 KiB, ms";
        let [base, ours] = [self.base, self.ours].map(super::median);
        Figure::new(name, Compare::Ratio, base, ours, None)
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

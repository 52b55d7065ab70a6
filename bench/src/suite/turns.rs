//! Alternates between the two sides.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::data::Data;
use crate::connect::Vfs;
use crate::folder::clear;
use crate::machine::Machine;
use crate::result::{About as _, Failure, Result};
use crate::work::Sample;

/// The measures on TPC-H.
pub(super) struct Suite {
    pub(super) work: PathBuf,
    pub(super) machine: Machine,
    pub(super) rounds: Option<u64>,
    pub(super) data: Data,
    /// A tenth of the data
    pub(super) small: Data,
}

/// The samples of the base, and of Densite.
pub(super) type Samples = (Vec<Sample>, Vec<Sample>);

impl Suite {
    pub(super) fn side(&self, base: bool) -> (&Path, Vfs) {
        if base {
            (&self.data.plain, Vfs::Plain)
        } else {
            (&self.data.densite, Vfs::Densite)
        }
    }

    /// Takes samples of both sides in turn. The side that begins alternates. All files are in the
    /// operating system's cache.
    ///
    /// # Errors
    /// If a job fails, or if `same` is true and the answers of the two sides differ.
    pub(super) fn alternate(
        &self,
        rounds: u64,
        same: bool,
        job: impl Fn(bool, u64) -> Result<Sample>,
    ) -> Result<Samples> {
        for file in [&self.data.plain, &self.data.densite, &self.small.densite] {
            std::io::copy(
                &mut File::open(file).about("open", file)?,
                &mut std::io::sink(),
            )
            .about("read", file)?;
        }
        let mut samples = (Vec::new(), Vec::new());
        for round in 0..rounds {
            for base in if round % 2 == 0 {
                [true, false]
            } else {
                [false, true]
            } {
                let sample = job(base, round)?;
                if base {
                    samples.0.push(sample)
                } else {
                    samples.1.push(sample)
                }
            }
            if let (true, Some(base), Some(ours)) = (same, samples.0.last(), samples.1.last())
                && (base.digest != ours.digest || base.rows != ours.rows)
            {
                return Err(Failure(format!(
                    "plain SQLite and Densite gave different answers in round {round}: {base:?} and {ours:?}"
                )));
            }
        }
        Ok(samples)
    }

    /// The path of a new file in an empty folder.
    pub(super) fn fresh(&self, name: &str) -> Result<PathBuf> {
        clear(&self.work)?;
        Ok(self.work.join(name))
    }

    /// A copy that can be changed. It is synced, so that writing it back does not disturb what
    /// follows.
    pub(super) fn copy(&self, file: &Path, name: &str) -> Result<PathBuf> {
        let copy = self.fresh(name)?;
        fs::copy(file, &copy).about("copy to", &copy)?;
        File::open(&copy)
            .and_then(|f| f.sync_all())
            .about("sync", &copy)?;
        Ok(copy)
    }
}

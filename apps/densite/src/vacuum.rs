//! Rewriting a database without its free space.

use crate::convert::store_options;
use crate::register::api;
use crate::{Progress, Result, Silent, VacuumReport};
use densite_tools::VacuumOptions as Vacuum;
use std::path::Path;
use std::time::Duration;

/// Rewrites a database in place, without free space and with each table's pages together. A Densite
/// file stays a Densite file, and a plain file stays plain.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("app.db");
/// # densite::open(&path)?.execute_batch("CREATE TABLE t(a)")?;
/// let report = densite::vacuum(&path)?;
/// println!("{} bytes are free again", report.freed_bytes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File); then the database is unchanged.
pub fn vacuum(path: impl AsRef<Path>) -> Result<VacuumReport> {
    VacuumOptions::new().vacuum(path, &mut Silent)
}

/// How to vacuum.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("app.db");
/// # densite::open(&path)?.execute_batch("CREATE TABLE t(a)")?;
/// use std::time::Duration;
/// densite::VacuumOptions::new()
///     .timeout(Duration::from_secs(60))
///     .vacuum(&path, &mut densite::Silent)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "options do nothing until `vacuum` is called"]
pub struct VacuumOptions {
    level: Option<i32>,
    threads: Option<usize>,
    timeout: Option<Duration>,
}

impl VacuumOptions {
    /// The defaults.
    pub fn new() -> VacuumOptions {
        VacuumOptions::default()
    }

    /// The zstd level of a Densite file's pages, -7 to 22. The default is 3.
    pub fn level(mut self, level: i32) -> VacuumOptions {
        self.level = Some(level);
        self
    }

    /// The number of background threads, 0 to 256. The default is one less than the cores, at least
    /// 1.
    pub fn threads(mut self, threads: usize) -> VacuumOptions {
        self.threads = Some(threads);
        self
    }

    /// How long to wait for another connection's lock. The default is 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> VacuumOptions {
        self.timeout = Some(timeout);
        self
    }

    /// As [`vacuum`](fn@vacuum), with these options.
    ///
    /// # Errors
    /// The same; [`Error::Setting`](crate::Error::Setting) if an option is out of range.
    pub fn vacuum(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn Progress,
    ) -> Result<VacuumReport> {
        let options = Vacuum {
            store: store_options(self.level, self.threads)?,
            wait: self.timeout.unwrap_or(Vacuum::default().wait),
        };
        Ok(densite_tools::vacuum(
            api()?,
            path.as_ref(),
            &options,
            progress,
        )?)
    }
}

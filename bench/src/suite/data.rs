//! The TPC-H databases of the suite.

use std::fs;
use std::path::{Path, PathBuf};

use crate::remote::Source;
use crate::result::Result;
use crate::stored::{self, Setting};
use crate::tpch;

/// The plain database of a scale factor, and its compressed form.
pub(super) struct Data {
    pub(super) sf: f64,
    pub(super) plain: PathBuf,
    pub(super) densite: PathBuf,
}

impl Data {
    /// Generates and compresses files that are missing or older than the `densite` command.
    pub(super) fn prepare(dir: &Path, sf: f64) -> Result<Data> {
        let data = Data {
            sf,
            plain: Data::plain(dir, sf)?,
            densite: dir.join(format!("tpch-sf{sf}.densite")),
        };
        data.compress(Setting::Default, &data.densite)?;
        Ok(data)
    }

    /// The plain database, generated if it is missing.
    pub(super) fn plain(dir: &Path, sf: f64) -> Result<PathBuf> {
        let plain = dir.join(format!("tpch-sf{sf}.db"));
        if !plain.exists() {
            eprintln!("generating TPC-H, scale factor {sf}");
            tpch::generate(sf, &plain)?;
        }
        Ok(plain)
    }

    /// Compresses into `target`, unless it is newer than the plain database and the `densite`
    /// command.
    pub(super) fn compress(&self, setting: Setting, target: &Path) -> Result<()> {
        let age = |p: &Path| fs::metadata(p).and_then(|m| m.modified()).ok();
        let newest = age(&crate::connect::sibling("densite", "make ext")?).max(age(&self.plain));
        if age(target) < newest {
            eprintln!("compressing {}", self.plain.display());
            stored::compress(setting, &self.plain, target)?;
        }
        Ok(())
    }

    /// The same for the measure of remote files.
    pub(super) fn source(&self) -> Source<'_> {
        Source {
            plain: &self.plain,
            densite: &self.densite,
            label: self.label(),
        }
    }

    pub(super) fn label(&self) -> String {
        format!("TPC-H SF {}", self.sf)
    }
}

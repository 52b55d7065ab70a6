//! Sizes of databases: allocated blocks of the plain file, of its compressed form, and of its
//! compressed form with zstd alone.

use std::path::Path;

use crate::library::{self, Codec};
use crate::machine::Machine;
use crate::measure::Measure;
use crate::outcome::{Compare, Figure, Outcome};
use crate::result::{About as _, Result};
use crate::stored::{self, Setting};
use crate::work::name;

const MIB: f64 = 1024.0 * 1024.0;
/// No database can become larger than with zstd and a dictionary, or than the plain file, by more
/// than 1 %.
const LARGEST: f64 = 1.01;

/// The disk space of `ours` compared with that of `base`.
pub(crate) fn figure(name: &str, base: &Path, ours: &Path, target: Option<f64>) -> Result<Figure> {
    let base = stored::allocated(base)? as f64 / MIB;
    let ours = stored::allocated(ours)? as f64 / MIB;
    Ok(Figure::new(name, Compare::Ratio, base, ours, target))
}

/// Compresses the plain database `db` in both ways into `dir`, and removes the results afterwards.
/// The first figure compares the default with the plain file, the second one compares it with zstd.
pub(crate) fn compare(db: &Path, label: &str, dir: &Path, machine: Machine) -> Result<Outcome> {
    let auto = dir.join("compared.auto.densite");
    let zstd = dir.join("compared.zstd.densite");
    stored::compress(Setting::Default, db, &auto)?;
    library::compress_in_new_process(Codec::Zstd, db, &zstd)?;
    let figures = vec![
        figure("disk space, MiB", db, &auto, Some(LARGEST))?,
        figure(
            "disk space, MiB, base codec=zstd",
            &zstd,
            &auto,
            Some(LARGEST),
        )?,
    ];
    let info = stored::info(&auto)?;
    for file in [&auto, &zstd] {
        std::fs::remove_file(file).about("remove", file)?;
    }
    Ok(Outcome {
        measure: name(Measure::Workloads),
        title: Measure::Workloads.title().to_owned(),
        data: label.to_owned(),
        base_label: "plain SQLite".to_owned(),
        ours_label: "Densite".to_owned(),
        figures,
        base: vec![],
        ours: vec![],
        info,
        machine,
    })
}

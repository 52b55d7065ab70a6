//! Measures of what programs do: lookups in one transaction, rows with UUID keys, little memory.

use std::collections::BTreeMap;
use std::path::Path;

use super::data::Data;
use super::turns::Samples;
use super::turns::Suite;
use crate::connect::Vfs;
use crate::folder::clear;
use crate::limited;
use crate::measure::Measure;
use crate::numbers::median;
use crate::outcome::{Compare, Figure, Outcome};
use crate::result::Result;
use crate::tpch;
use crate::work::{Job, Sample, What, name};

/// Rows with a UUID key.
const ROWS: u64 = 120_000;
/// The scale factor of a small program's database, and its lookups.
const SMALL: (f64, u64) = (0.01, 50);

impl Suite {
    /// Takes the measure, if it is one of these.
    pub(super) fn program(&self, measure: Measure, rounds: u64) -> Result<Option<Outcome>> {
        let (samples, figures) = match measure {
            Measure::LookupsInOne => {
                let samples = self.alternate(rounds, true, |base, round| {
                    let (file, vfs) = self.side(base);
                    self.lookups(What::LookupsInOne, file, vfs, round)
                        .in_new_process()
                })?;
                let figures = vec![cpu(&samples, Some(1.4)), wall(&samples, None)];
                (samples, figures)
            }
            Measure::Limited => {
                let mut all: Samples = (vec![], vec![]);
                let mut figures = Vec::new();
                let jobs = [
                    (What::Lookups, "100,000 lookups", 0.4),
                    (What::Q1, "Q1", 0.8),
                    (What::Q8, "Q8", 0.8),
                ];
                for (what, words, most) in jobs {
                    let samples = self.alternate(rounds, true, |base, round| {
                        let (file, vfs) = self.side(base);
                        limited::run(&self.lookups(what, file, vfs, round))
                    })?;
                    let mut figure = wall(&samples, Some(most));
                    figure.name = format!("{words}, {}", figure.name);
                    figures.push(figure);
                    all.0.extend(samples.0);
                    all.1.extend(samples.1);
                }
                (all, figures)
            }
            Measure::Uuids | Measure::UuidsWal => {
                let what = if measure == Measure::Uuids {
                    What::Uuids
                } else {
                    What::UuidsWal
                };
                let samples = self.alternate(rounds, true, |base, _| {
                    let vfs = if base { Vfs::Plain } else { Vfs::Densite };
                    Job {
                        count: ROWS,
                        ..Job::new(what, &self.fresh("uuids.db")?, vfs)
                    }
                    .in_new_process()
                })?;
                let figures = vec![cpu(&samples, Some(1.8)), wall(&samples, Some(1.1))];
                (samples, figures)
            }
            Measure::Small => {
                let folder = self.data.plain.parent().unwrap_or(Path::new("."));
                let data = Data::prepare(folder, SMALL.0)?;
                let samples = self.alternate(rounds, true, |base, round| {
                    let (file, vfs) = if base {
                        (&data.plain, Vfs::Plain)
                    } else {
                        (&data.densite, Vfs::Densite)
                    };
                    Job {
                        count: SMALL.1,
                        orders: tpch::orders(SMALL.0),
                        seed: round,
                        ..Job::new(What::Small, file, vfs)
                    }
                    .in_new_process()
                })?;
                let mib = |samples: &[Sample]| {
                    let all = samples.iter().map(|s| s.peak_rss_kib as f64 / 1024.0);
                    median(all.collect())
                };
                let (base, ours) = (mib(&samples.0), mib(&samples.1));
                let figures = vec![
                    Figure::new("peak memory, MiB", Compare::Ratio, base, ours, None),
                    Figure::new(
                        "peak memory, MiB; base: 1.5 times plain SQLite's and 8 MiB",
                        Compare::Ratio,
                        1.5 * base + 8.0,
                        ours,
                        Some(1.0),
                    ),
                ];
                (samples, figures)
            }
            _ => return Ok(None),
        };
        clear(&self.work)?;
        Ok(Some(Outcome {
            measure: name(measure),
            title: measure.title().to_owned(),
            data: self.data.label(),
            base_label: "plain SQLite".to_owned(),
            ours_label: "Densite".to_owned(),
            figures,
            base: samples.0,
            ours: samples.1,
            info: BTreeMap::new(),
            machine: self.machine.clone(),
        }))
    }

    fn lookups(&self, what: What, file: &Path, vfs: Vfs, round: u64) -> Job {
        Job {
            count: 100_000,
            orders: tpch::orders(self.data.sf),
            seed: round,
            ..Job::new(what, file, vfs)
        }
    }
}

fn wall(samples: &Samples, target: Option<f64>) -> Figure {
    let (base, ours) = (&samples.0, &samples.1);
    Figure::medians(
        "wall time, s",
        Compare::Ratio,
        base,
        ours,
        |s| s.wall_s,
        target,
    )
}

fn cpu(samples: &Samples, target: Option<f64>) -> Figure {
    let (base, ours) = (&samples.0, &samples.1);
    Figure::medians(
        "CPU time, s",
        Compare::Ratio,
        base,
        ours,
        |s| s.cpu_s,
        target,
    )
}

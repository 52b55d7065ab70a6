//! The measures on TPC-H, and their figures.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use super::data::Data;
use super::turns::{Samples, Suite};
use crate::connect::Vfs;
use crate::folder::clear;
use crate::measure::Measure;
use crate::numbers::median;
use crate::outcome::{Compare, Figure, Outcome};
use crate::result::{Failure, Result};
use crate::stored::{self, Setting};
use crate::work::{Job, Sample, What, name};
use crate::{codec, sizes, space, tpch};

impl Suite {
    pub(super) fn measure(&self, measure: Measure) -> Result<Outcome> {
        let rounds = self.rounds.unwrap_or(measure.rounds());
        if let Some(outcome) = self.program(measure, rounds)? {
            return Ok(outcome);
        }
        let lookups = |count| {
            move |what, file: &Path, vfs, round| Job {
                count,
                orders: tpch::orders(self.data.sf),
                seed: round,
                ..Job::new(what, file, vfs)
            }
        };
        let mut info = BTreeMap::new();
        let mut labels = ("plain SQLite", "Densite");
        let wall = |samples: &Samples, target| {
            Figure::medians(
                "wall time, s",
                Compare::Ratio,
                &samples.0,
                &samples.1,
                |s| s.wall_s,
                Some(target),
            )
        };
        let cpu = |samples: &Samples, target| {
            Figure::medians(
                "CPU time, s",
                Compare::Ratio,
                &samples.0,
                &samples.1,
                |s| s.cpu_s,
                target,
            )
        };
        let memory = |samples: &Samples| {
            Figure::medians(
                "peak memory, MiB",
                Compare::Difference,
                &samples.0,
                &samples.1,
                rss_mib,
                None,
            )
        };
        let (samples, figures) = match measure {
            Measure::Size => {
                info = stored::info(&self.data.densite)?;
                let (plain, densite) = (&self.data.plain, &self.data.densite);
                let figure = sizes::figure("disk space, MiB", plain, densite, Some(0.14))?;
                ((vec![], vec![]), vec![figure])
            }
            Measure::Archive => {
                let archive = self.data.plain.with_extension("archive.densite");
                self.data.compress(Setting::Archive, &archive)?;
                info = stored::info(&archive)?;
                let plain = &self.data.plain;
                let figure = sizes::figure("disk space, MiB", plain, &archive, Some(0.125))?;
                ((vec![], vec![]), vec![figure])
            }
            Measure::VacuumInto | Measure::CompressInto => {
                let source = if measure == Measure::VacuumInto {
                    (&self.data.densite, Vfs::Densite)
                } else {
                    (&self.data.plain, Vfs::Plain)
                };
                let samples = self.alternate(rounds, true, |base, _| {
                    let (file, vfs) = if base {
                        (&self.data.plain, Vfs::Plain)
                    } else {
                        source
                    };
                    let other = self.fresh("vacuum.db")?;
                    let other_vfs = if base { Vfs::Plain } else { Vfs::Densite };
                    Job {
                        other: Some(other),
                        other_vfs,
                        ..Job::new(What::VacuumInto, file, vfs)
                    }
                    .in_new_process()
                })?;
                let figures = vec![
                    wall(&samples, 1.3),
                    cpu(&samples, Some(2.2)),
                    memory(&samples),
                ];
                (samples, figures)
            }
            Measure::Q1 | Measure::Q8 => {
                let (what, wall_most, cpu_most) = if measure == Measure::Q1 {
                    (What::Q1, 1.0, Some(1.1))
                } else {
                    (What::Q8, 0.9, Some(1.1))
                };
                let samples = self.alternate(rounds, true, |base, _| {
                    let (file, vfs) = self.side(base);
                    Job::new(what, file, vfs).in_new_process()
                })?;
                let figures = vec![
                    wall(&samples, wall_most),
                    cpu(&samples, cpu_most),
                    memory(&samples),
                ];
                (samples, figures)
            }
            Measure::Lookups => {
                let job = lookups(100_000);
                let samples = self.alternate(rounds, true, |base, round| {
                    let (file, vfs) = self.side(base);
                    job(What::Lookups, file, vfs, round).in_new_process()
                })?;
                let figures = vec![
                    wall(&samples, 1.1),
                    cpu(&samples, Some(1.1)),
                    memory(&samples),
                ];
                (samples, figures)
            }
            Measure::UpdatesWal | Measure::UpdatesDelete => {
                let (what, wall_most, syncs_most) = if measure == Measure::UpdatesWal {
                    (What::UpdatesWal, 1.2, None)
                } else {
                    (What::UpdatesDelete, 1.3, Some(0.0))
                };
                let job = lookups(10_000);
                let samples = self.alternate(rounds, true, |base, round| {
                    let (file, vfs) = self.side(base);
                    let copy = self.copy(file, "updates.db")?;
                    job(what, &copy, vfs, round).in_new_process()
                })?;
                let syncs = Figure::medians(
                    "syncs",
                    Compare::Difference,
                    &samples.0,
                    &samples.1,
                    |s| s.syncs as f64,
                    syncs_most,
                );
                let figures = vec![
                    wall(&samples, wall_most),
                    syncs,
                    cpu(&samples, None),
                    memory(&samples),
                ];
                (samples, figures)
            }
            Measure::Open => {
                labels = ("Densite, a tenth of the data", "Densite");
                let samples = self.alternate(rounds, false, |base, round| {
                    let data = if base { &self.small } else { &self.data };
                    Job {
                        orders: tpch::orders(data.sf),
                        seed: round,
                        ..Job::new(What::Open, &data.densite, Vfs::Densite)
                    }
                    .in_new_process()
                })?;
                let ms = Figure::medians(
                    "wall time, ms",
                    Compare::Ratio,
                    &samples.0,
                    &samples.1,
                    |s| s.wall_s * 1e3,
                    Some(1.2),
                );
                let rss = Figure::medians(
                    "peak memory, MiB",
                    Compare::Ratio,
                    &samples.0,
                    &samples.1,
                    rss_mib,
                    Some(1.2),
                );
                (samples, vec![ms, rss])
            }
            Measure::BulkLoad | Measure::BulkLoadWal => {
                let (what, wall_most, cpu_most) = if measure == Measure::BulkLoad {
                    (What::BulkLoad, 1.2, 2.0)
                } else {
                    (What::BulkLoadWal, 1.05, 1.6)
                };
                let samples = self.alternate(rounds, true, |base, _| {
                    let file = self.fresh("load.db")?;
                    let vfs = if base { Vfs::Plain } else { Vfs::Densite };
                    Job {
                        other: Some(self.data.plain.clone()),
                        ..Job::new(what, &file, vfs)
                    }
                    .in_new_process()
                })?;
                let memory = Figure::medians(
                    "peak memory, MiB",
                    Compare::Difference,
                    &samples.0,
                    &samples.1,
                    rss_mib,
                    Some(128.0),
                );
                let time = wall(&samples, wall_most);
                let figures = vec![memory, time, cpu(&samples, Some(cpu_most))];
                (samples, figures)
            }
            Measure::Codec => {
                labels = ("zstd level 3 with dictionary", "typed");
                let samples = self.alternate(rounds, false, |base, round| {
                    let what = if base {
                        What::CodecZstd
                    } else {
                        What::CodecTyped
                    };
                    Job {
                        seed: round,
                        ..Job::new(what, &self.data.plain, Vfs::Plain)
                    }
                    .in_new_process()
                })?;
                let figures = codec_figures(&samples);
                (samples, figures)
            }
            Measure::Halves => {
                labels = ("a fresh copy", "Densite");
                let largest = crate::statements::order_key(tpch::orders(self.data.sf));
                let figures = space::halves(&self.data.densite, &self.work, largest)?;
                ((vec![], vec![]), figures)
            }
            Measure::Chain => {
                labels = ("a fresh copy", "Densite");
                // The targets are for a scale factor of 0.1.
                let data = if self.data.sf > 0.1 {
                    &self.small
                } else {
                    &self.data
                };
                return self.outcome(
                    measure,
                    data,
                    labels,
                    space::chain(&data.plain, &self.work)?,
                );
            }
            Measure::Vacuum => {
                let mut times = (Vec::new(), Vec::new());
                for _ in 0..rounds {
                    let into = Job {
                        other: Some(self.fresh("vacuum.db")?),
                        ..Job::new(What::VacuumInto, &self.data.plain, Vfs::Plain)
                    };
                    times.0.push(into.in_new_process()?.wall_s);
                    let copy = self.copy(&self.data.densite, "vacuumed.db")?;
                    let start = Instant::now();
                    stored::densite(&[
                        Path::new("vacuum"),
                        Path::new("--yes"),
                        Path::new("--quiet"),
                        &copy,
                    ])?;
                    times.1.push(start.elapsed().as_secs_f64());
                }
                let (base, ours) = (median(times.0), median(times.1));
                let figure = Figure::new("wall time, s", Compare::Ratio, base, ours, Some(3.0));
                ((vec![], vec![]), vec![figure])
            }
            _ => {
                return Err(Failure("this measure has a module of its own".into()));
            }
        };
        clear(&self.work)?;
        Ok(Outcome {
            measure: name(measure),
            title: measure.title().to_owned(),
            data: self.data.label(),
            base_label: labels.0.to_owned(),
            ours_label: labels.1.to_owned(),
            figures,
            base: samples.0,
            ours: samples.1,
            info,
            machine: self.machine.clone(),
        })
    }

    /// An outcome without samples, with other data than the suite's.
    fn outcome(
        &self,
        measure: Measure,
        data: &Data,
        labels: (&str, &str),
        figures: Vec<Figure>,
    ) -> Result<Outcome> {
        clear(&self.work)?;
        Ok(Outcome {
            measure: name(measure),
            title: measure.title().to_owned(),
            data: data.label(),
            base_label: labels.0.to_owned(),
            ours_label: labels.1.to_owned(),
            figures,
            base: vec![],
            ours: vec![],
            info: BTreeMap::new(),
            machine: self.machine.clone(),
        })
    }
}

fn rss_mib(sample: &Sample) -> f64 {
    sample.peak_rss_kib as f64 / 1024.0
}

fn codec_figures(samples: &Samples) -> Vec<Figure> {
    let figure = |title, compare, name: &'static str, target| {
        Figure::medians(
            title,
            compare,
            &samples.0,
            &samples.1,
            |s| s.figure(name),
            target,
        )
    };
    let at_most = Compare::Ours;
    vec![
        figure(
            "checksums and decoding of a page, random order, median, µs",
            at_most,
            codec::MEDIAN_US,
            Some(1.4),
        ),
        figure(
            "checksums and decoding of a page, random order, 99th percentile, µs",
            at_most,
            codec::P99_US,
            Some(3.0),
        ),
        figure(
            "of that reading the clock, median, µs",
            at_most,
            codec::CLOCK_US,
            None,
        ),
        figure(
            "encoding, verification included, MB/s of CPU time",
            Compare::AtLeast,
            codec::ENCODE_MB_S,
            Some(140.0),
        ),
        figure(
            "payloads without frame headers, MiB",
            Compare::Ratio,
            codec::PAYLOAD_MIB,
            None,
        ),
        figure("pages refused", at_most, codec::REFUSED, Some(0.0)),
    ]
}

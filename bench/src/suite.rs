//! The benchmarks: plain SQLite and Densite alternately, a new process each time, medians and ratios.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum as _};
use statrs::statistics::Median as _;

use crate::connect::Vfs;
use crate::machine::{self, Machine};
use crate::measure::Measure;
use crate::outcome::{Compare, Figure, Outcome};
use crate::result::{About as _, Failure, Result};
use crate::stored::Setting;
use crate::work::{Job, Sample, What, name};
use crate::{churn, codec, ingest, report, sizes, space, stored, tpch, workloads};

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct Choice {
    /// Small data (scale factor 0.1 instead of 1)
    #[arg(long)]
    quick: bool,
    /// Millions of batches and ten gigabytes where the usual run takes less
    #[arg(long, conflicts_with = "quick")]
    long: bool,
    /// These measures only
    #[arg(long, value_delimiter = ',')]
    only: Vec<Measure>,
    /// How often each is taken, instead of each measure's own number
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: Option<u64>,
    /// Measure the stored size of this SQLite database instead
    #[arg(long)]
    db: Option<PathBuf>,
    /// The folder of data, results, notes and report
    #[arg(long, default_value = "bench")]
    dir: PathBuf,
}

/// A scale factor's plain database and its stored form.
struct Data {
    sf: f64,
    plain: PathBuf,
    densite: PathBuf,
}

impl Data {
    /// Generates and compresses what is missing or older than the command that compresses.
    fn prepare(dir: &Path, sf: f64) -> Result<Data> {
        let data = Data {
            sf,
            plain: Data::plain(dir, sf)?,
            densite: dir.join(format!("tpch-sf{sf}.densite")),
        };
        data.compress(Setting::Default, &data.densite)?;
        Ok(data)
    }

    /// The plain database, generated if it is missing.
    fn plain(dir: &Path, sf: f64) -> Result<PathBuf> {
        let plain = dir.join(format!("tpch-sf{sf}.db"));
        if !plain.exists() {
            eprintln!("generating TPC-H, scale factor {sf}");
            tpch::generate(sf, &plain)?;
        }
        Ok(plain)
    }

    /// Compresses into `target`, unless that is newer than the plain database and the command that compresses.
    fn compress(&self, setting: Setting, target: &Path) -> Result<()> {
        let age = |p: &Path| fs::metadata(p).and_then(|m| m.modified()).ok();
        let newest = age(&crate::connect::sibling("densite", "make ext")?).max(age(&self.plain));
        if age(target) < newest {
            eprintln!("compressing {}", self.plain.display());
            stored::compress(setting, &self.plain, target)?;
        }
        Ok(())
    }

    fn label(&self) -> String {
        format!("TPC-H SF {}", self.sf)
    }
}

struct Suite {
    work: PathBuf,
    machine: Machine,
    rounds: Option<u64>,
    data: Data,
    /// A tenth of it
    small: Data,
}

/// Measures what was chosen, writes the results and the report.
pub(crate) fn run(choice: &Choice) -> Result<()> {
    let data_dir = choice.dir.join("data");
    fs::create_dir_all(&data_dir).about("create", &data_dir)?;
    crate::connect::load_extension()?;
    let machine = Machine::describe(&data_dir)?;
    if machine::load() > 0.5 {
        eprintln!(
            "the machine is busy (load {}): the figures will be worse than they are",
            machine::load()
        );
    }
    if let Some(db) = &choice.db {
        let label = db.file_stem().unwrap_or(db.as_os_str()).to_string_lossy();
        let outcome = sizes::compare(db, &label, &data_dir, machine)?;
        outcome.save(&choice.dir)?;
        println!("{}", report::terminal(&[outcome]));
        return report::write(&choice.dir);
    }
    let sf = if choice.quick { 0.1 } else { 1.0 };
    let work = data_dir.join("work");
    fs::create_dir_all(&work).about("create", &work)?;
    let mut suite = None;
    let mut outcomes = Vec::new();
    let mut failed = Vec::new();
    for measure in Measure::value_variants() {
        if choice.only.is_empty() || choice.only.contains(measure) {
            eprintln!("{}: {}", name(*measure), measure.title());
            let saved = |outcome: Outcome| {
                outcome.save(&choice.dir)?;
                Ok(vec![outcome])
            };
            let taken = match measure {
                Measure::Workloads => {
                    workloads::measure(&data_dir, choice.quick, &machine, &choice.dir)
                }
                Measure::Queue | Measure::Moved | Measure::CommitLatency => {
                    let plain = || Data::plain(&data_dir, sf / 10.0);
                    churn::measure(*measure, &work, choice.quick, &machine, plain).and_then(saved)
                }
                measure if measure.is_ingest() => {
                    let place = ingest::Place {
                        data: &data_dir,
                        work: &work,
                        results: &choice.dir.join("results"),
                        machine: &machine,
                        quick: choice.quick,
                        long: choice.long,
                    };
                    let rounds = choice.rounds.unwrap_or(measure.rounds());
                    ingest::measure(*measure, rounds, &place).and_then(saved)
                }
                _ => {
                    let suite = match &mut suite {
                        Some(suite) => suite,
                        // The data of all these measures take a while.
                        None => suite.insert(Suite {
                            work: work.clone(),
                            machine: machine.clone(),
                            rounds: choice.rounds,
                            data: Data::prepare(&data_dir, sf)?,
                            small: Data::prepare(&data_dir, sf / 10.0)?,
                        }),
                    };
                    suite.measure(*measure).and_then(saved)
                }
            };

            match taken {
                Ok(taken) => outcomes.extend(taken),
                // The others are worth having nevertheless.
                Err(failure) => {
                    eprintln!("{}: {failure}", name(*measure));
                    failed.push(name(*measure));
                }
            }
        }
    }
    println!("{}", report::terminal(&outcomes));
    report::write(&choice.dir)?;
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure(format!(
            "these measures could not be taken, for the reasons above: {}",
            failed.join(", ")
        )))
    }
}

/// The first samples are the base's, the second ours.
type Samples = (Vec<Sample>, Vec<Sample>);

impl Suite {
    fn measure(&self, measure: Measure) -> Result<Outcome> {
        let rounds = self.rounds.unwrap_or(measure.rounds());
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
                let figure = sizes::figure("disk space, MiB", plain, densite, Some(0.23))?;
                ((vec![], vec![]), vec![figure])
            }
            Measure::Archive => {
                let archive = self.data.plain.with_extension("archive.densite");
                self.data.compress(Setting::Archive, &archive)?;
                info = stored::info(&archive)?;
                let plain = &self.data.plain;
                let figure = sizes::figure("disk space, MiB", plain, &archive, Some(0.19))?;
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
                let figures = vec![wall(&samples, 2.2), cpu(&samples, None), memory(&samples)];
                (samples, figures)
            }
            Measure::Q1 | Measure::Q8 => {
                let (what, wall_most, cpu_most) = if measure == Measure::Q1 {
                    (What::Q1, 1.05, Some(1.25))
                } else {
                    (What::Q8, 1.2, None)
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
                let figures = vec![wall(&samples, 1.4), cpu(&samples, None), memory(&samples)];
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
                let what = if measure == Measure::BulkLoad {
                    What::BulkLoad
                } else {
                    What::BulkLoadWal
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
                let time = Figure::medians(
                    "wall time, s",
                    Compare::Ratio,
                    &samples.0,
                    &samples.1,
                    |s| s.wall_s,
                    None,
                );
                let figures = vec![memory, time, cpu(&samples, None)];
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
                // The figures are for a scale factor of 0.1.
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
                let median = |times: Vec<f64>| statrs::statistics::Data::new(times).median();
                let (base, ours) = (median(times.0), median(times.1));
                let figure = Figure::new("wall time, s", Compare::Ratio, base, ours, Some(3.0));
                ((vec![], vec![]), vec![figure])
            }
            _ => {
                return Err(Failure("these have modules of their own".into()));
            }
        };
        self.clear()?;
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

    /// An outcome without samples, on other data than the suite's.
    fn outcome(
        &self,
        measure: Measure,
        data: &Data,
        labels: (&str, &str),
        figures: Vec<Figure>,
    ) -> Result<Outcome> {
        self.clear()?;
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

    fn side(&self, base: bool) -> (&Path, Vfs) {
        if base {
            (&self.data.plain, Vfs::Plain)
        } else {
            (&self.data.densite, Vfs::Densite)
        }
    }

    /// Takes samples of both sides in turn, each beginning every other round, all files in the operating system's cache.
    ///
    /// # Errors
    /// If a job fails, or if `same` is asked for and the two sides' answers differ.
    fn alternate(
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

    /// The path of a file that does not exist yet.
    fn fresh(&self, name: &str) -> Result<PathBuf> {
        self.clear()?;
        Ok(self.work.join(name))
    }

    /// A copy that may be changed, on disk, so that writing it back does not disturb what follows.
    fn copy(&self, file: &Path, name: &str) -> Result<PathBuf> {
        let copy = self.fresh(name)?;
        fs::copy(file, &copy).about("copy to", &copy)?;
        File::open(&copy)
            .and_then(|f| f.sync_all())
            .about("sync", &copy)?;
        Ok(copy)
    }

    fn clear(&self) -> Result<()> {
        for entry in fs::read_dir(&self.work).about("read", &self.work)? {
            let path = entry.about("read", &self.work)?.path();
            fs::remove_file(&path).about("remove", &path)?;
        }
        Ok(())
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
            Some(4.0),
        ),
        figure(
            "checksums and decoding of a page, random order, 99th percentile, µs",
            at_most,
            codec::P99_US,
            Some(8.0),
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

//! SQLite's own speedtest1, with a WAL: the same program on plain SQLite and with Densite as its
//! default VFS. `bench/speedtest1.sh` builds it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;

use crate::connect::extension;
use crate::folder::clear;
use crate::machine::Machine;
use crate::measure::Measure;
use crate::numbers::median;
use crate::outcome::{Compare, Figure, Outcome};
use crate::result::{About as _, Failure, Result};

/// The size of the test, in speedtest1's own unit.
const SIZE: u32 = 60;
/// A case that takes less than this on plain SQLite is not among the worst ones.
const SHORT_S: f64 = 0.05;
/// The number of worst cases in the report.
const WORST: usize = 3;

/// What one run took.
struct Run {
    wall_s: f64,
    cpu_s: f64,
    /// Seconds by the name of the case
    cases: BTreeMap<String, f64>,
    /// speedtest1's hash of all results
    hash: String,
    /// The version of SQLite, which is compiled into speedtest1
    sqlite: String,
}

/// Measures both sides in turn.
///
/// # Errors
/// If speedtest1 is missing or fails, or if the results of the two sides differ.
pub(crate) fn measure(
    data: &Path,
    work: &Path,
    rounds: u64,
    quick: bool,
    machine: &Machine,
) -> Result<Outcome> {
    let program = data.join("speedtest1").join("speedtest1");
    if !program.exists() {
        return Err(Failure(format!(
            "{} is missing: build it with bench/speedtest1.sh {}",
            program.display(),
            data.join("speedtest1").display()
        )));
    }
    let program = fs::canonicalize(&program).about("find", &program)?;
    let size = if quick { SIZE / 10 } else { SIZE };
    let (mut base, mut ours) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for plain in [round % 2 == 0, round % 2 != 0] {
            clear(work)?;
            let run = run(&program, &work.join("speedtest1.db"), size, plain)?;
            if plain {
                base.push(run);
            } else {
                ours.push(run);
            }
        }
    }
    clear(work)?;
    if let Some(other) = base.iter().chain(&ours).find(|r| r.hash != base[0].hash) {
        return Err(Failure(format!(
            "speedtest1 gave different results: hash {} and {}",
            base[0].hash, other.hash
        )));
    }
    let over = |runs: &[Run], of: &dyn Fn(&Run) -> f64| median(runs.iter().map(of).collect());
    let ratio = |name: &str, of: &dyn Fn(&Run) -> f64, target| {
        let (base, ours) = (over(&base, of), over(&ours, of));
        Figure::new(name, Compare::Ratio, base, ours, target)
    };
    let mut figures = vec![
        ratio("wall time, s", &|r| r.wall_s, Some(1.1)),
        ratio("CPU time, s", &|r| r.cpu_s, Some(1.5)),
    ];
    let cases = base.first().map(|r| r.cases.keys()).into_iter().flatten();
    let mut cases: Vec<Figure> = cases
        .map(|case| {
            let of = |r: &Run| r.cases.get(case).copied().unwrap_or(f64::NAN);
            ratio(&format!("case {case}, s"), &of, None)
        })
        .filter(|figure| figure.base >= SHORT_S)
        .collect();
    cases.sort_by(|a, b| b.value.total_cmp(&a.value));
    figures.extend(cases.into_iter().take(WORST));
    Ok(Outcome {
        measure: "speedtest".to_owned(),
        title: Measure::Speedtest.title().to_owned(),
        data: format!("SQLite's speedtest1 --size {size}"),
        base_label: "plain SQLite".to_owned(),
        ours_label: "Densite".to_owned(),
        figures,
        base: vec![],
        ours: vec![],
        info: BTreeMap::new(),
        machine: Machine {
            sqlite: base.first().map(|r| r.sqlite.clone()).unwrap_or_default(),
            ..machine.clone()
        },
    })
}

fn run(program: &Path, database: &Path, size: u32, plain: bool) -> Result<Run> {
    let mut command = Command::new(program);
    command
        .args(["--journal", "wal", "--verify", "--size", &size.to_string()])
        .arg(database);
    if plain {
        command.env_remove("SQLTEST_EXT").env_remove("SQLTEST_VFS");
    } else {
        command
            .env("SQLTEST_EXT", extension()?)
            .env("SQLTEST_VFS", "densite");
    }
    let cpu = cpu_of_children()?;
    let start = Instant::now();
    let output = command.output().about("run", program)?;
    let wall = start.elapsed();
    let cpu = cpu_of_children()?.saturating_sub(cpu);
    let text = String::from_utf8_lossy(&output.stdout);
    let hash = text
        .lines()
        .find_map(|l| l.strip_prefix("Verification Hash: "));
    match hash {
        Some(hash) if output.status.success() => Ok(Run {
            wall_s: wall.as_secs_f64(),
            cpu_s: cpu.as_secs_f64(),
            cases: text.lines().filter_map(case).collect(),
            hash: hash.to_owned(),
            sqlite: version(&text).unwrap_or_default().to_owned(),
        }),
        _ => Err(Failure(format!(
            "speedtest1 failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

/// SQLite's version, from a line like `-- Speedtest1 for SQLite 3.46.1 2024-08-13 09:16:08 ...`.
fn version(text: &str) -> Option<&str> {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("-- Speedtest1 for SQLite "));
    line?.split(' ').next()
}

/// The name and the seconds of a case, from a line like
/// ` 100 - 30000 INSERTs into table with no index....................    0.031s`.
fn case(line: &str) -> Option<(String, f64)> {
    let (name, seconds) = line.trim().rsplit_once(' ')?;
    let seconds = seconds.strip_suffix('s')?.parse().ok()?;
    let name = name.trim_end().trim_end_matches('.');
    let (number, _) = name.split_once(" - ")?;
    number.parse::<u32>().ok()?;
    Some((name.to_owned(), seconds))
}

/// The user and system time of all children that have ended, to a hundredth of a second.
fn cpu_of_children() -> Result<Duration> {
    let path = Path::new("/proc/self/stat");
    let stat = fs::read_to_string(path).about("read", path)?;
    // The program's name, which can contain spaces, ends with the last bracket. cutime and cstime
    // are the 14th and 15th fields behind it (proc_pid_stat(5)).
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: Option<u64> = fields
        .split_ascii_whitespace()
        .skip(13)
        .take(2)
        .map(|field| field.parse::<u64>().ok())
        .sum();
    let ticks = ticks.ok_or_else(|| Failure(format!("{} has no times", path.display())))?;
    Ok(Duration::from_secs_f64(
        ticks as f64 / clock_ticks_per_second() as f64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_case_has_its_name_and_seconds() {
        let line = " 100 - 30000 INSERTs into table with no index.................    0.031s";
        let name = "100 - 30000 INSERTs into table with no index".to_owned();
        assert_eq!(case(line), Some((name, 0.031)));
        for other in [
            "       TOTAL......   1.2s",
            "-- Speedtest1 for SQLite 3.46.1",
            "",
        ] {
            assert_eq!(case(other), None, "{other}");
        }
    }

    #[test]
    fn the_version_is_the_one_that_speedtest1_says() {
        let text = "-- Speedtest1 for SQLite 3.46.1 2024-08-13 09:16:08 c9c2ab54\n 100 - x..  0.1s";
        assert_eq!(version(text), Some("3.46.1"));
        assert_eq!(version("other"), None);
    }

    #[test]
    fn the_time_of_children_grows() {
        let before = cpu_of_children().expect("times");
        let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let status = Command::new("sh").args(["-c", busy]).status();
        assert!(status.expect("run sh").success());
        assert!(cpu_of_children().expect("times") > before);
    }
}

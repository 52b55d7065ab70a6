//! `densite replicas URL`

use crate::args::{Common, ReplicasArgs};
use crate::failure::Outcome;
use crate::out;
use densite_tools::replica::{GenerationInfo, replicas, time_text};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The list price of S3's standard storage, in dollars for a GB and month.
const GB_MONTH: f64 = 0.023;
/// The exit code if an object is missing or the head is damaged.
const DAMAGED: u8 = 5;

pub(crate) fn run(common: Common, args: &ReplicasArgs) -> Outcome {
    let info = replicas(&args.url)?;
    let generations: Vec<Value> = info.generations.iter().map(object).collect();
    let newest = info.generations.iter().rev().find_map(|g| g.last);
    let age = newest.map(|(_, time_ms)| age_of(time_ms));
    let cost = info.bytes as f64 / 1e9 * GB_MONTH;
    let all = json!({
        "generations": generations,
        "objects": info.objects,
        "bytes": info.bytes,
        "other_objects": info.foreign,
        "head_problem": info.head_problem,
        "age_seconds": age,
        "storage_usd_per_month": cost,
    });
    let mut text = String::new();
    for generation in &info.generations {
        let _ = match (generation.first, generation.last) {
            (Some((first, first_ms)), Some((last, last_ms))) => writeln!(
                text,
                "{}: restore points {first} to {last}, {} to {}, {} in {}",
                generation.name,
                time_text(first_ms),
                time_text(last_ms),
                indicatif::BinaryBytes(generation.bytes),
                match generation.bases {
                    1 => "1 base".to_owned(),
                    n => format!("{n} bases"),
                },
            ),
            _ => writeln!(
                text,
                "{}: its first base is being uploaded",
                generation.name
            ),
        };
    }
    for missing in info.generations.iter().filter_map(|g| g.missing.as_ref()) {
        let _ = writeln!(
            text,
            "the object {missing} is missing: later restore points cannot be restored; ship with --takeover, which begins a new generation"
        );
    }
    if let Some(problem) = &info.head_problem {
        let _ = writeln!(
            text,
            "the object head {problem}: this is from a list of the objects; ship with --takeover, which makes a new head and keeps all restore points"
        );
    }
    if let Some(age) = age {
        let _ = writeln!(text, "the newest restore point is {age:.1} s old");
    }
    let _ = writeln!(
        text,
        "{}, {}; about ${cost:.2} a month at the list price of S3",
        out::counted(info.objects, "object", "objects"),
        out::bytes(info.bytes)
    );
    let _ = match info.foreign {
        0 => Ok(()),
        1 => writeln!(
            text,
            "1 other file is here, which is not part of the replica"
        ),
        n => writeln!(
            text,
            "{n} other files are here, which are not part of the replica"
        ),
    };
    let has_head = info.head_problem.is_none();
    let is_whole = has_head && info.generations.iter().all(|g| g.missing.is_none());
    Ok(out::verdict(
        common,
        &all,
        &text,
        if is_whole { 0 } else { DAMAGED },
    )?)
}

fn object(generation: &GenerationInfo) -> Value {
    let point = |point: Option<(u64, u64)>| {
        point.map(
            |(n, time_ms)| json!({ "restore_point": n, "time": time_text(time_ms), "time_ms": time_ms }),
        )
    };
    json!({
        "generation": generation.name,
        "epoch": generation.epoch,
        "first": point(generation.first),
        "last": point(generation.last),
        "commit": generation.commit,
        "bases": generation.bases,
        "bytes": generation.bytes,
        "missing": generation.missing,
    })
}

/// How long ago a moment was, in seconds; 0 for one in the future.
fn age_of(time_ms: u64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let age = now
        .unwrap_or_default()
        .saturating_sub(Duration::from_millis(time_ms));
    age.as_secs_f64()
}

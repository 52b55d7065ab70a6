//! `densite replicas URL`

use crate::args::{Common, ReplicasArgs};
use crate::failure::Outcome;
use crate::out;
use densite_tools::replica::{GenerationInfo, replicas, time_text};
use serde_json::{Value, json};
use std::fmt::Write as _;

pub(crate) fn run(common: Common, args: &ReplicasArgs) -> Outcome {
    let info = replicas(&args.url)?;
    let generations: Vec<Value> = info.generations.iter().map(object).collect();
    let all = json!({
        "generations": generations,
        "objects": info.objects,
        "bytes": info.bytes,
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
    let _ = writeln!(
        text,
        "{} objects, {}",
        out::thousands(info.objects),
        out::bytes(info.bytes)
    );
    out::result(common, &all, &text)?;
    Ok(0)
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
    })
}

//! Runs every ingest measure in its quick form. It must give figures, and promises that do not
//! depend on the machine must hold.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The program. The extension is built beside it, in the same profile.
fn program() -> &'static Path {
    densite_tests::library::library();
    Path::new(env!("CARGO_BIN_EXE_densite-bench"))
}

/// Takes a measure. Returns its figures: name, base and value.
fn take(measure: &str, dir: &Path) -> Vec<(String, f64, f64)> {
    let output = Command::new(program())
        .args([
            "bench", "--quick", "--rounds", "1", "--only", measure, "--dir",
        ])
        .arg(dir)
        .output()
        .expect("run the program");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{measure}: {stderr}");
    let results = dir.join("results");
    let path = results.join(format!(
        "rows-acknowledged-by-the-log--quick-{measure}.json"
    ));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let outcome: Value = serde_json::from_str(&text).expect("JSON");
    let figures = outcome["figures"].as_array().expect("figures");
    let work = std::fs::read_dir(dir.join("data/work")).expect("a folder");
    assert_eq!(work.count(), 0, "{measure} does not remove its files");
    figures
        .iter()
        .map(|f| {
            let number = |name: &str| {
                f[name]
                    .as_f64()
                    .unwrap_or_else(|| panic!("{measure}: {f} has no {name}"))
            };
            (
                f["name"].as_str().expect("a name").to_owned(),
                number("base"),
                number("ours"),
            )
        })
        .collect()
}

/// The only figure whose name contains `part`.
fn ours(figures: &[(String, f64, f64)], part: &str) -> f64 {
    let found: Vec<_> = figures
        .iter()
        .filter(|(name, _, _)| name.contains(part))
        .collect();
    assert_eq!(found.len(), 1, "{part} in {figures:?}");
    found[0].2
}

#[test]
fn bursts_are_acknowledged_and_survive_kill_9() {
    let dir = tempfile::tempdir().expect("a folder");
    for measure in ["ingest-burst", "ingest-burst-large"] {
        let figures = take(measure, dir.path());
        assert!(ours(&figures, "rows/s") > 0.0);
        assert_eq!(ours(&figures, "that are not there"), 0.0, "{figures:?}");
        assert_eq!(ours(&figures, "there twice"), 0.0, "{figures:?}");
    }
}

#[test]
fn single_rows_latency_and_pruning_are_measured() {
    let dir = tempfile::tempdir().expect("a folder");
    let figures = take("ingest-single", dir.path());
    assert!(ours(&figures, "before and after, median") > 0.0);
    let figures = take("ingest-latency", dir.path());
    assert!(ours(&figures, "at full speed: COMMIT, ") > 0.0);
    let figures = take("ingest-prune", dir.path());
    assert!(ours(&figures, "all writes") > 0.0);
}

#[test]
fn applying_and_constant_load_are_measured() {
    let dir = tempfile::tempdir().expect("a folder");
    let figures = take("ingest-apply", dir.path());
    assert!(ours(&figures, "write lock") > 0.0);
    let figures = take("ingest-constant", dir.path());
    assert!(ours(&figures, "largest WAL, MiB") > 0.0 && ours(&figures, "largest log, MiB") > 0.0);
}

#[test]
fn unapplied_rows_and_votes_are_measured() {
    let dir = tempfile::tempdir().expect("a folder");
    let figures = take("ingest-lookup", dir.path());
    assert!(ours(&figures, "not applied, median") > 0.0);
    let figures = take("ingest-memory", dir.path());
    assert!(ours(&figures, "resident memory, MiB; ") > 0.0);
    assert!(ours(&figures, "while they are applied") > 0.0);
    let figures = take("ingest-votes", dir.path());
    assert!(ours(&figures, "votes only: operations/s") > 0.0);
    let svg =
        std::fs::read_to_string(dir.path().join("results/votes-quick.svg")).expect("a picture");
    assert!(svg.contains("Densite") && svg.contains("operations/s"));
}

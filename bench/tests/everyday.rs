//! Builds a part of the everyday databases, and runs their measure on it in its quick form.

use std::path::{Path, PathBuf};
use std::process::Command;

use densite_testing::skip;
use serde_json::Value;

/// The figures of each statement: first and second run, CPU and wall time.
const OF_A_STATEMENT: usize = 4;

fn bench() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Python of `bench/everyday/run.sh`, which installs packages there.
fn python() -> Option<PathBuf> {
    let path = bench().join("../target/bench-everyday/env/bin/python");
    let is_built = path.is_file() && bench().join("../target/bench-everyday/env.built").is_file();
    if !is_built {
        skip(
            "the packages of the everyday databases are missing: make everyday-part installs them",
        );
    }
    is_built.then_some(path)
}

fn build(python: &Path, dir: &Path, names: &str) {
    let mut command = Command::new(python);
    command.arg(bench().join("everyday/build.py"));
    command.args(["--part", "--only", names, "--dir"]).arg(dir);
    let output = command.output().expect("run the builder");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path);
    let text = text.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn the_same_sources_give_the_same_bytes_and_each_statement_an_answer() {
    let Some(python) = python() else {
        return;
    };
    densite_tests::library::library();
    densite_tests::library::command();
    let dir = tempfile::tempdir().expect("a folder");
    let (data, again) = (
        dir.path().join("data/everyday-part"),
        dir.path().join("again"),
    );
    for folder in [&data, &again] {
        std::fs::create_dir_all(folder).expect("a folder");
    }
    // Two kinds: the others take minutes.
    build(&python, &data, "embeddings,flights");
    build(&python, &again, "flights");
    let bytes = |folder: &Path| std::fs::read(folder.join("flights.db")).expect("flights.db");
    assert!(bytes(&data) == bytes(&again), "flights.db differs");

    let output = Command::new(env!("CARGO_BIN_EXE_densite-bench"))
        .args(["bench", "--quick", "--rounds", "1", "--only", "everyday"])
        .arg("--dir")
        .arg(dir.path())
        .output()
        .expect("run the program");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let built = json(&data.join("built.json"));
    for (name, built) in built.as_object().expect("names") {
        if built.get("missing").is_some() {
            skip(&format!(
                "the everyday database {name} cannot be built: {built}"
            ));
            continue;
        }
        let results = std::fs::read_dir(dir.path().join("results")).expect("results");
        let paths = results.map(|entry| entry.expect("an entry").path());
        let is = |path: &PathBuf| path.to_string_lossy().contains(&format!("--{name}--"));
        let outcome = json(&paths.into_iter().find(is).expect(name));
        let figures = outcome["figures"].as_array().expect("figures");
        for figure in figures {
            assert!(figure["ours"].as_f64() > Some(0.0), "{name}: {figure}");
        }
        let runs = |f: &&Value| f["name"].as_str().is_some_and(|n| n.contains(" run, "));
        assert_eq!(
            figures.iter().filter(runs).count(),
            7 * OF_A_STATEMENT,
            "{name}"
        );
    }
}

//! Checks that docs/CLI.md documents exactly the fields that verbs print with `--json`.

use crate::common::*;
use serde_json::Value;
use std::collections::BTreeMap;

/// Field and type in the table under a heading. The header of its first column begins with `field`.
pub(crate) fn documented(heading: &str) -> BTreeMap<String, String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CLI.md");
    let text = std::fs::read_to_string(path).expect("docs/CLI.md");
    let section = text
        .split("\n## ")
        .find(|s| s.starts_with(&format!("{heading}\n")))
        .expect("the section");
    let mut fields = BTreeMap::new();
    let mut inside = false;
    for line in section.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if !line.starts_with('|') {
            inside = false;
        } else if cells[0].starts_with("field") {
            inside = true;
        } else if inside && !cells[0].starts_with("---") {
            for name in cells[0].split(", ") {
                fields.insert(name.trim_matches('`').to_string(), cells[1].to_string());
            }
        }
    }
    assert!(!fields.is_empty(), "{heading}: no table of fields");
    fields
}

fn has_type(value: &Value, types: &str) -> bool {
    types.split(" or ").any(|t| match t {
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("{other} is no type"),
    })
}

/// Asserts that every field of the object is documented with its type, and that every documented
/// field is there unless it is optional.
#[track_caller]
pub(crate) fn matches(object: &Value, fields: &BTreeMap<String, String>, optional: &[&str]) {
    for (name, value) in object.as_object().expect("an object") {
        let types = fields
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not documented"));
        assert!(
            has_type(value, types),
            "{name} is {value}, documented as {types}"
        );
    }
    for name in fields.keys() {
        assert!(
            object.get(name).is_some() || optional.contains(&name.as_str()),
            "{name} is missing in {object}"
        );
    }
}

/// Fields that `vacuum` prints only with `--dry-run`.
const ONLY_PLANNED: [&str; 11] = [
    "live_bytes",
    "dead_bytes",
    "free_bytes",
    "unallocated_bytes",
    "unallocated_estimated",
    "maintained_bytes",
    "vacuumed_bytes",
    "reclaimable_bytes",
    "needed_bytes",
    "vacuum_seconds",
    "available_bytes",
];

#[test]
fn every_verb_prints_what_is_documented() {
    let dir = temp();
    let (a, b, c) = (at(&dir, "a.db"), at(&dir, "b.db"), at(&dir, "c.db"));
    plain(&a, 4096, 1000);
    let convert = documented("compress");
    matches(
        &densite(&["compress", &a, &b, "--json"]).expect(0).json(),
        &convert,
        &[],
    );
    matches(
        &densite(&["--json", "decompress", &b, &c]).expect(0).json(),
        &convert,
        &[],
    );
    let info = documented("info");
    let check = documented("check");
    for db in [&a, &b] {
        matches(
            &densite(&["info", db, "--json"]).expect(0).json(),
            &info,
            &[],
        );
        let checked = densite(&["check", db, "--json"]).expect(0).json();
        matches(&checked, &check, &[]);
        assert_eq!(checked["integrity_check"], serde_json::json!(["ok"]));
    }
    let page = at(&dir, "page.html");
    matches(
        &densite(&["report", &b, "-o", &page, "--json"])
            .expect(0)
            .json(),
        &documented("report"),
        &[],
    );
    let vacuum = documented("vacuum");
    let fields = |object: &Value| -> Vec<String> {
        let object = object.as_object().expect("an object");
        object.keys().cloned().collect()
    };
    for db in [&a, &b] {
        let plan = densite(&["vacuum", db, "--dry-run", "--json"]);
        let done = densite(&["vacuum", db, "--yes", "--json"]);
        let (plan, done) = (plan.expect(0).json(), done.expect(0).json());
        matches(&done, &vacuum, &ONLY_PLANNED);
        let planned = fields(&plan);
        let others: Vec<&str> = vacuum
            .keys()
            .map(String::as_str)
            .filter(|n| !planned.iter().any(|p| p == n))
            .collect();
        matches(&plan, &vacuum, &others);
        assert!(ONLY_PLANNED.iter().all(|n| plan.get(n).is_some()));
    }
    let store = densite(&["info", &b, "--json"]).json()["store"].clone();
    assert!(
        store
            .as_object()
            .is_some_and(|s| !s.is_empty() && s.values().all(Value::is_u64)),
        "{store}"
    );
    matches(
        &densite(&["sql", &b, "SELECT 1", "--json"]).expect(0).json(),
        &documented("sql"),
        &["error"],
    );
}

#[test]
fn errors_are_as_documented() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 100);
    let fields = documented("JSON");
    let optional: Vec<&str> = fields
        .keys()
        .map(String::as_str)
        .filter(|n| !["kind", "exit_code", "message"].contains(n))
        .collect();
    for args in [
        &["info", "/no/such/file"][..],
        &["compress", &a, &a],
        &["compress", &a, "--level", "99"],
        &["sql", &a, "SELECT * FROM nothing"],
        &["compress", "/"],
    ] {
        let ran = densite(&[args, &["--json"]].concat());
        assert_ne!(ran.code, 0, "{args:?}");
        let object = ran.json();
        let error = &object["error"];
        matches(error, &fields, &optional);
        assert_eq!(error["exit_code"], ran.code);
        assert!(
            ran.err
                .contains(error["message"].as_str().expect("a string")),
            "{ran:?}"
        );
    }
}

#[test]
fn every_kind_is_documented() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CLI.md"))
        .expect("docs/CLI.md");
    let source = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../features/tools/src/error.rs"
    ))
    .expect("source");
    let kinds = source
        .split("pub fn kind")
        .nth(1)
        .expect("the table")
        .split("\n    }\n")
        .next()
        .expect("its end");
    let mut seen = 0;
    for word in kinds.split('"').skip(1).step_by(2) {
        assert!(
            text.contains(&format!("`{word}`")),
            "{word} is not in docs/CLI.md"
        );
        seen += 1;
    }
    assert!(seen > 10);
}

#[test]
fn quiet_prints_only_the_result() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    plain(&a, 4096, 100);
    let ran = densite(&["compress", &a, &b, "--quiet"]).expect(0);
    assert!(ran.out.is_empty() && ran.err.is_empty(), "{ran:?}");
    let ran = densite(&["check", &b, "-q"]).expect(0);
    assert!(ran.out.is_empty() && ran.err.is_empty(), "{ran:?}");
    assert!(
        densite(&["info", &b, "-q"])
            .expect(0)
            .out
            .contains("compressed")
    );
}

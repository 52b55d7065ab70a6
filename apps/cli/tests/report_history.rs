//! A page of `densite report` that is written again keeps the figures of earlier reports.

use crate::common::*;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::fs;

const START: &str = "<!doctype html>\n<!--densite-report ";

/// The figures that a page keeps.
#[track_caller]
fn kept(page: &str) -> Value {
    let text = fs::read_to_string(page).expect("UTF-8");
    let json = text.strip_prefix(START).expect("a page");
    let json = json.split("-->").next().expect("an end");
    serde_json::from_str(json).expect("JSON")
}

/// Changes these figures.
fn change(page: &str, f: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(page).expect("UTF-8");
    let rest = text.split_once("-->").expect("an end").1;
    let mut json = kept(page);
    f(&mut json);
    fs::write(page, format!("{START}{json}-->{rest}")).expect("written");
}

fn runs(page: &str) -> Vec<Value> {
    kept(page)["runs"].as_array().expect("reports").clone()
}

#[test]
fn a_page_that_is_written_again_shows_the_earlier_figures() {
    let dir = temp();
    let (a, page) = (at(&dir, "a.db"), at(&dir, "page.html"));
    plain(&a, 4096, 3000);
    let first = densite(&["report", &a, "-o", &page, "--json"])
        .expect(0)
        .json();
    assert_eq!(first["reports"], 1);
    let text = fs::read_to_string(&page).expect("UTF-8");
    assert!(!text.contains("<h2>Over time</h2>"));
    assert!(text.contains("Written to this file again"));
    let plain_bytes = fs::metadata(&a).expect("metadata").len();

    let db = Connection::open(&a).expect("opens");
    db.execute_batch("CREATE TABLE \"--><script>\" AS SELECT * FROM t;")
        .expect("filled");
    drop(db);
    densite(&["compress", &a, "--yes"]).expect(0);
    let before = fs::read(&a).expect("read");
    let second = densite(&["report", &a, "-o", &page, "--json"])
        .expect(0)
        .json();
    assert_eq!(second["reports"], 2);
    assert_eq!(fs::read(&a).expect("read"), before, "the database");
    assert_eq!(names(dir.path()), ["a.db", "page.html"]);
    let runs = runs(&page);
    assert_eq!(runs[0]["stored"], plain_bytes);
    assert_eq!(
        (&runs[0]["compressed"], &runs[1]["compressed"]),
        (&json!(false), &json!(true))
    );
    let text = fs::read_to_string(&page).expect("UTF-8");
    assert!(text.contains("<h2>Over time</h2>") && !text.contains("<script"));
    let row = text
        .split("--&gt;&lt;script&gt;<small>")
        .nth(1)
        .expect("a row");
    assert!(
        row.split("</tr>").next().expect("a row").contains(">new<"),
        "{row}"
    );
    // The third one is compared with the second one, in which the table was there.
    densite(&["report", &a, "-o", &page]).expect(0);
    let text = fs::read_to_string(&page).expect("UTF-8");
    assert!(!text.contains(">new<") && text.contains(">the same<"));
}

#[test]
fn a_page_about_another_database_and_a_changed_one_are_not_replaced() {
    let dir = temp();
    let (a, b, page) = (at(&dir, "a.db"), at(&dir, "b.db"), at(&dir, "page.html"));
    plain(&a, 4096, 300);
    plain(&b, 4096, 300);
    densite(&["report", &a, "-o", &page]).expect(0);
    let refused = |db: &str, why: &str| {
        let before = fs::read(&page).expect("read");
        let ran = densite(&["report", db, "-o", &page, "--json"])
            .expect(1)
            .says(why);
        assert_eq!(ran.json()["error"]["kind"], "exists");
        assert_eq!(fs::read(&page).expect("read"), before);
    };
    refused(&b, "is the report on another database");
    densite(&["report", &b, "-o", &page, "--yes"]).expect(0);
    assert_eq!(runs(&page).len(), 1, "of this database");
    let good = fs::read(&page).expect("read");
    // Every way in which a page can be no page.
    let not_a_page = "is not a page of densite report, or was changed";
    for bytes in [
        &b""[..],
        &good[..100],
        &good[1..],
        b"<!doctype html>\n<html></html>",
    ] {
        fs::write(&page, bytes).expect("written");
        refused(&b, not_a_page);
    }
    for wrong in [json!({}), json!([1]), json!([{ "time": "x" }]), json!(null)] {
        fs::write(&page, &good).expect("written");
        change(&page, |json| json["runs"] = wrong);
        refused(&b, not_a_page);
    }
    densite(&["report", &b, "-o", &page, "--yes"]).expect(0);
    assert_eq!(runs(&page).len(), 1);
}

#[test]
fn a_page_keeps_the_first_report_and_the_newest_ones() {
    let dir = temp();
    let (a, page) = (at(&dir, "a.db"), at(&dir, "page.html"));
    plain(&a, 4096, 300);
    densite(&["report", &a, "-o", &page]).expect(0);
    change(&page, |json| {
        let mut run = json["runs"][0].clone();
        let times = 0..100i64;
        let runs = times.map(|i| {
            run["time"] = json!(1_700_000_000 + i * 86_400);
            run["stored"] = json!(u64::MAX);
            run.clone()
        });
        json["runs"] = runs.collect();
    });
    densite(&["report", &a, "-o", &page]).expect(0);
    let runs = runs(&page);
    assert_eq!(runs.len(), 100);
    assert_eq!(runs[0]["time"], 1_700_000_000);
    assert_eq!(runs[1]["time"], 1_700_000_000 + 2 * 86_400);
    assert!(runs[99]["stored"].as_u64() < Some(1 << 30));
    let text = fs::read_to_string(&page).expect("UTF-8");
    assert!(text.contains("<summary>94 earlier</summary>"));
}

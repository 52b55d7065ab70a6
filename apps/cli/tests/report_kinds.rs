//! The page of `densite report` for databases of all kinds: the map, the columns, what would make
//! them smaller.

use crate::common::*;
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

/// Writes the page about a database, and returns it.
fn page(db: &str) -> String {
    let dir = temp();
    let page = at(&dir, "page.html");
    densite(&["report", db, "-o", &page]).expect(0);
    fs::read_to_string(page).expect("UTF-8")
}

/// The part of the page under a heading.
#[track_caller]
fn part<'a>(page: &'a str, heading: &str) -> &'a str {
    let rest = page.split(&format!("<h2>{heading}</h2>")).nth(1);
    let rest = rest.unwrap_or_else(|| panic!("no {heading} in {page}"));
    rest.split("</section>").next().expect("a part")
}

/// The squares of the map: what each says.
fn squares(page: &str) -> Vec<&str> {
    let map = part(page, "Where it lies");
    let squares = map.split("title=\"").skip(1);
    squares
        .map(|s| s.split('"').next().expect("text"))
        .collect()
}

/// Measures the page on narrow and wide screens, in light and dark mode.
#[track_caller]
fn fits(page: &str) {
    let dir = temp();
    let file = at(&dir, "page.html");
    fs::write(&file, page).expect("written");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/page.py");
    let ran = run(Command::new("python3").args([script, "check", &file]));
    match ran.code {
        3 => densite_testing::skip("chromium is not installed"),
        code => assert!(code == 0 && ran.out.is_empty(), "{ran:?}"),
    }
}

/// Two tables that were filled one after the other, and free pages between them.
fn two_tables(path: &str) {
    let db = Connection::open(path).expect("opens");
    db.execute_batch(
        "PRAGMA page_size=1024; PRAGMA auto_vacuum=NONE;
         CREATE TABLE first(id INTEGER PRIMARY KEY, day TEXT, kind TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<30000)
         INSERT INTO first SELECT i, date('2020-01-01', (i % 900) || ' days'), 'kind ' || (i*i % 7) FROM n;
         CREATE TABLE gone AS SELECT * FROM first;
         CREATE TABLE \"<b>second\"(id INTEGER PRIMARY KEY, price REAL, note TEXT);
         INSERT INTO \"<b>second\" SELECT id, id / 4.0, hex(id * 7919) FROM first;
         DROP TABLE gone;",
    )
    .expect("filled");
}

#[test]
fn the_map_shows_where_each_object_lies() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    two_tables(&a);
    let plain = page(&a);
    let all = squares(&plain);
    assert!(all.len() > 500, "{}", all.len());
    let holds = |i: usize, name: &str| assert!(all[i].contains(name), "{}: {name}", all[i]);
    holds(all.len() / 6, "first ");
    holds(all.len() / 2, "free ");
    holds(all.len() * 5 / 6, "&lt;b&gt;second ");
    assert!(all.iter().all(|square| square.starts_with("from ")));
    let words = part(&plain, "Where it lies");
    assert!(words.contains("mostly ") && words.contains("&lt;b&gt;second</span>"));
    densite(&["compress", &a, &b]).expect(0);
    let small = page(&b);
    let all = squares(&small);
    let has = |name: &str| all.iter().any(|square| square.contains(name));
    assert!(has("first ") && has("&lt;b&gt;second ") && has("page map, models and headers"));
    fits(&plain);
    fits(&small);
}

#[test]
fn columns_are_shown_as_info_shows_them() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    two_tables(&a);
    assert!(part(&page(&a), "How columns are coded").contains("A plain file"));
    densite(&["compress", &a, &b]).expect(0);
    let page = page(&b);
    let shown = part(&page, "How columns are coded");
    let info = densite(&["info", &b, "--json"]).expect(0).json();
    let mut columns = 0;
    for object in info["objects"].as_array().expect("objects") {
        for column in object["columns"].as_array().expect("columns") {
            for way in column["encodings"].as_array().expect("encodings") {
                let way = way.as_str().expect("text");
                let way = way.replace('&', "&amp;").replace('<', "&lt;");
                let way = way.replace('>', "&gt;").replace('"', "&quot;");
                let way = way.replace('\'', "&#39;");
                assert!(shown.contains(&way), "{way}");
                columns += 1;
            }
        }
    }
    assert!(columns >= 5, "{info}");
    assert!(shown.contains("date: ") && shown.contains("as columns"));
}

#[test]
fn a_plain_file_is_told_what_compressing_and_vacuuming_bring() {
    let dir = temp();
    let a = at(&dir, "a b.db");
    two_tables(&a);
    let before = fs::read(&a).expect("read");
    let page = page(&a);
    assert_eq!(fs::read(&a).expect("read"), before);
    let shown = part(&page, "What would make it smaller");
    assert!(
        shown.contains("Measured: all of it was compressed"),
        "{shown}"
    );
    let quoted = format!("&#39;{a}&#39;");
    for verb in ["compress", "vacuum"] {
        assert!(shown.contains(&format!("<code>densite {verb} {quoted}</code>")));
    }
    // The figures are those of `advise`.
    let advice = densite(&["advise", &a, "--json"]).expect(0).json();
    let vacuum = advice["advice"].as_array().expect("lines");
    let vacuum = vacuum.iter().find(|line| line["about"] == "vacuum");
    let saved = vacuum.expect("a line")["saves_bytes"].as_u64();
    let saved = indicatif::BinaryBytes(saved.expect("bytes"));
    assert!(shown.contains(&format!("<b>about {saved}</b>")), "{shown}");
    // Compressing brings more, so it comes first.
    let first = shown.find("densite compress");
    assert!(first < shown.find("densite vacuum"), "{shown}");
}

#[test]
fn a_thousand_tables_have_a_page_of_modest_length() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    let db = Connection::open(&a).expect("opens");
    db.execute_batch("BEGIN").expect("begins");
    for i in 0..1000 {
        let name = format!(
            "{}table number {i:04}",
            "long_name_without_a_space".repeat(i % 4)
        );
        db.execute_batch(&format!(
            "CREATE TABLE \"{name}\"(a INTEGER PRIMARY KEY, b);
             INSERT INTO \"{name}\" VALUES(1, 'one row'), (2, zeroblob({}));",
            i * 10
        ))
        .expect("a table");
    }
    db.execute_batch("COMMIT").expect("commits");
    drop(db);
    densite(&["compress", &a, &b]).expect(0);
    for db in [&a, &b] {
        let page = page(db);
        assert!(page.len() < 1_000_000, "{}", page.len());
        assert!(page.contains("<summary>976 more tables and indexes</summary>"));
        let other = "other tables and indexes";
        assert!(part(&page, "Where it lies").contains(other));
        fits(&page);
    }
}

#[test]
fn an_empty_database_has_a_page() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    fs::write(&a, b"").expect("write");
    let empty = page(&a);
    assert!(empty.contains("becomes a database at the first write"));
    // A database without tables is not empty: it has one page.
    let db = Connection::open(&a).expect("opens");
    db.execute_batch("CREATE TABLE t(a); DROP TABLE t;")
        .expect("made");
    drop(db);
    densite(&["compress", &a, &b]).expect(0);
    for db in [&a, &b] {
        let page = page(db);
        assert!(
            page.contains("sqlite_schema") && !page.contains("NaN"),
            "{page}"
        );
        fits(&page);
    }
    fits(&empty);
}

#[test]
fn a_damaged_database_has_a_page_and_another_file_has_none() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 3000);
    let good = fs::read(&a).expect("read");
    let mut bytes = good.clone();
    bytes[110..1000].fill(0xff);
    fs::write(&a, &bytes).expect("write");
    let text = page(&a);
    assert!(
        text.contains("Tables and indexes could not be read"),
        "{text}"
    );
    // As an encrypted database: no byte has a meaning.
    let mut seed = 1u64;
    for byte in &mut bytes {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        *byte = (seed >> 56) as u8;
    }
    fs::write(&a, &bytes).expect("write");
    let out = at(&dir, "page.html");
    densite(&["report", &a, "-o", &out])
        .expect(5)
        .says("is not a SQLite database or is encrypted");
    fs::write(&a, &good[..good.len() / 2]).expect("write");
    let cut = densite(&["report", &a, "-o", &out]);
    assert!(matches!(cut.code, 0 | 5), "{cut:?}");
    densite(&[
        "report",
        dir.path().to_str().expect("UTF-8"),
        "-o",
        &at(&dir, "d.html"),
    ])
    .expect(5);
    assert!(!Path::new(&at(&dir, "d.html")).exists());
}

#[test]
fn a_wal_is_shown_beside_the_file_and_stays_as_it_is() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    let db = Connection::open(&a).expect("opens");
    db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE w(a); INSERT INTO w VALUES(zeroblob(300000));")
        .expect("a WAL");
    let before = snapshot(dir.path());
    let text = page(&a);
    densite(&["advise", &a]).expect(0);
    let beside = part(&text, "Where it lies").split("Beside the file").nth(1);
    assert!(
        beside.expect("a heading").contains("</i>WAL</span>"),
        "{text}"
    );
    assert!(text.contains("There is a WAL of "));
    let after = snapshot(dir.path());
    let same = |name: &str| {
        let of = |all: &[(String, Vec<u8>)]| all.iter().find(|(n, _)| n == name).cloned();
        assert!(of(&before) == of(&after), "{name}");
    };
    same("a.db");
    same("a.db-wal");
    fits(&text);
    drop(db);
}

#[test]
fn a_directory_without_permission_to_write_is_named_and_one_for_the_database_is_enough() {
    let dir = temp();
    chmod(dir.path(), 0o755);
    let (locked, open) = (dir.path().join("locked"), dir.path().join("open"));
    for directory in [&locked, &open] {
        fs::create_dir(directory).expect("mkdir");
    }
    let a = locked.join("a.db");
    let a = a.to_str().expect("UTF-8");
    plain(a, 4096, 300);
    chmod(a, 0o444);
    chmod(&locked, 0o555);
    // As root, the command runs as another user, who owns this directory.
    let _ = chown(&open, Some(NOBODY), Some(NOBODY));
    let inside = locked.join("page.html");
    let inside = inside.to_str().expect("UTF-8");
    unprivileged(&dir, &["report", a, "-o", inside])
        .expect(1)
        .says("no permission");
    let outside = open.join("page.html");
    let outside = outside.to_str().expect("UTF-8");
    unprivileged(&dir, &["report", a, "-o", outside]).expect(0);
    assert_eq!(names(&locked), ["a.db"]);
    assert_eq!(names(&open), ["page.html"]);
    chmod(&locked, 0o755);
}

//! `densite vacuum`: the space it frees, and the data it keeps.

use crate::common::*;
use rusqlite::Connection;
use std::fs;
use std::process::Command;

/// A database of a few megabytes whose rows were mostly deleted.
fn mostly_deleted(path: &str, journal: &str, settings: &str) {
    let db = Connection::open(path).expect("open");
    db.execute_batch(&format!(
        "{settings}; PRAGMA journal_mode={journal};
         PRAGMA user_version=42; PRAGMA application_id=4711;"
    ))
    .expect("settings");
    fill(&db, 4096, 20_000);
    db.execute_batch(
        "CREATE TABLE lines(a INTEGER, b INTEGER, c TEXT, PRIMARY KEY(a, b)) WITHOUT ROWID;
         CREATE TABLE seq(id INTEGER PRIMARY KEY AUTOINCREMENT, g TEXT AS (id || 'x') STORED);
         CREATE TABLE bare(x);
         CREATE INDEX some ON t(score) WHERE id > 100;
         CREATE INDEX lower_name ON t(lower(name));
         CREATE TRIGGER tr AFTER DELETE ON bare BEGIN SELECT 1; END;
         CREATE VIRTUAL TABLE words USING fts5(body);
         CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<20000)
           INSERT INTO lines SELECT i/4, i%4, 'line ' || i FROM n;
         INSERT INTO seq(id) VALUES (7), (9);
         INSERT INTO bare SELECT name FROM t LIMIT 3000;
         INSERT INTO words SELECT name FROM t LIMIT 2000;
         INSERT INTO boxes SELECT id, id, id+1 FROM t LIMIT 2000;
         DELETE FROM bare WHERE rowid%3=0;
         DELETE FROM lines WHERE a%2=1;
         DELETE FROM t WHERE id > 7000;
         ANALYZE;",
    )
    .expect("fill");
}

/// All content that a user can query, including row ids.
fn all(path: &str) -> String {
    let sql = [
        "SELECT id, name, score, hex(body) FROM t ORDER BY id",
        "SELECT * FROM lines",
        "SELECT id, g FROM seq",
        "SELECT seq FROM sqlite_sequence",
        "SELECT rowid, x FROM bare",
        "SELECT count(*) FROM words WHERE words MATCH 'name'",
        "SELECT count(*) FROM boxes WHERE x0 > 50",
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2",
        "SELECT * FROM sqlite_stat1 ORDER BY 1, 2",
        "PRAGMA user_version",
        "PRAGMA application_id",
        "PRAGMA encoding",
        "PRAGMA auto_vacuum",
        "PRAGMA page_size",
        "PRAGMA journal_mode",
        "SELECT id FROM t INDEXED BY by_name WHERE name > 'name 5' ORDER BY name, id",
    ];
    densite(&["sql", path, &sql.join(";"), "--format", "csv"])
        .expect(0)
        .out
}

fn number(path: &str, sql: &str) -> i64 {
    let out = densite(&["sql", path, sql, "--format", "csv"])
        .expect(0)
        .out;
    let line = out.lines().nth(1).expect("a row");
    line.parse().expect("a number")
}

#[test]
fn vacuum_reclaims_space_and_changes_nothing_else() {
    for (journal, settings) in [
        ("DELETE", "PRAGMA encoding='UTF-8'"),
        (
            "WAL",
            "PRAGMA encoding='UTF-16le'; PRAGMA auto_vacuum=INCREMENTAL",
        ),
        ("WAL", "PRAGMA auto_vacuum=FULL"),
    ] {
        let dir = temp();
        let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
        mostly_deleted(&a, journal, settings);
        densite(&["compress", &a, &b]).expect(0);
        for (db, form) in [(&a, "plain"), (&b, "compressed")] {
            let (before, cookie) = (all(db), number(db, "PRAGMA schema_version"));
            let length = fs::metadata(db).expect("metadata").len();
            let ran = densite(&["vacuum", db, "--yes", "--json"]).expect(0);
            let said = ran.json();
            assert_eq!(said["form"], form);
            assert!(ran.err.is_empty(), "{ran:?}");
            assert_eq!(all(db), before, "{journal} {settings} {form}");
            assert_eq!(number(db, "PRAGMA freelist_count"), 0);
            assert_eq!(said["replaced"], true);
            assert!(number(db, "PRAGMA schema_version") > cookie);
            let after = fs::metadata(db).expect("metadata").len();
            assert_eq!(said["bytes_before"], length);
            assert_eq!(said["bytes_after"], after);
            // In a compressed file the deleted rows took almost no space before.
            let most = if form == "plain" {
                length * 4 / 5
            } else {
                length
            };
            assert!(after <= most, "{form}: {length} to {after}");
            let checked = densite(&["check", db, "--json"]).expect(0).json();
            assert_eq!(checked["ok"], true);
            assert_eq!(is_compressed(db), form == "compressed");
        }
        assert_eq!(names(dir.path()), ["a.db", "b.db"]);
    }
}

#[test]
fn the_report_counts_rows_tables_and_indexes() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 1024, 3000);
    let rows = number(&a, "SELECT count(*) FROM t");
    let said = densite(&["vacuum", &a, "--yes", "--json"]).expect(0).json();
    assert_eq!(said["rows"], rows);
    assert_eq!((&said["tables"], &said["indexes"]), (&1.into(), &1.into()));
    assert_eq!(said["page_size"], 1024);
    let text = densite(&["vacuum", &a, "--yes"]).expect(0).out;
    assert!(text.contains(&format!("{} rows", "2,000")), "{text}");
    let text = densite(&["vacuum", &a, "--yes", "--quiet"]).expect(0);
    assert!(text.out.is_empty() && text.err.is_empty(), "{text:?}");
}

#[test]
fn a_dry_run_estimates_the_result_and_changes_nothing() {
    for rows in [500, 20_000] {
        let dir = temp();
        let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
        mostly_deleted(&a, "DELETE", "");
        if rows == 500 {
            densite(&["sql", &a, "DELETE FROM t WHERE id>500"]).expect(0);
        }
        densite(&["compress", &a, &b]).expect(0);
        // This also creates dead bytes: the same pages are stored several times.
        let again = "UPDATE t SET score=score+1; PRAGMA densite_level=1; UPDATE lines SET c=c||'.'";
        densite(&["sql", &b, again]).expect(0);
        for db in [&a, &b] {
            let before = snapshot(dir.path());
            let plan = densite(&["vacuum", db, "--dry-run", "--json"])
                .expect(0)
                .json();
            densite(&["vacuum", db, "--dry-run"]).expect(0);
            assert!(snapshot(dir.path()) == before);
            let of = |name: &str| plan[name].as_u64().expect(name) as f64;
            let live = of("live_bytes") + of("dead_bytes") + of("free_bytes");
            let length = of("bytes_before");
            if db == &a {
                assert_eq!(live + of("unallocated_bytes"), length);
            } else {
                assert_eq!(live, length);
            }
            assert_eq!(of("reclaimable_bytes") + of("vacuumed_bytes"), length);
            let done = densite(&["vacuum", db, "--yes", "--json"]).expect(0).json();
            let after = done["bytes_after"].as_f64().expect("a number");
            assert!(after <= of("needed_bytes"), "{plan} {done}");
            let off = (of("vacuumed_bytes") - after).abs() / length;
            assert!(off < 0.15, "{off}: {plan} {done}");
        }
    }
}

#[test]
fn info_estimates_what_a_vacuum_reclaims() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    mostly_deleted(&a, "DELETE", "");
    densite(&["compress", &a, &b]).expect(0);
    for db in [&a, &b] {
        let info = densite(&["info", db, "--json"]).expect(0).json();
        let plan = densite(&["vacuum", db, "--dry-run", "--json"])
            .expect(0)
            .json();
        for (name, value) in info["vacuum"].as_object().expect("an object") {
            assert_eq!(&plan[name], value, "{name}");
        }
        let text = densite(&["info", db]).expect(0).out;
        for word in ["live", "free", "unallocated", "a vacuum reclaims"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}

#[test]
fn info_estimates_what_maintenance_reclaims() {
    for (journal, condition) in [("DELETE", "id % 2"), ("WAL", "id > 3000")] {
        let dir = temp();
        let b = at(&dir, "b.db");
        let script = format!(
            "PRAGMA journal_mode={journal}; PRAGMA secure_delete=OFF;
             CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<30000)
               INSERT INTO t SELECT i, hex(randomblob(200)) FROM n;
             DELETE FROM t WHERE {condition}; PRAGMA wal_checkpoint"
        );
        densite(&[
            "sql",
            "--create",
            &format!("file:{b}?maintain=off"),
            &script,
        ])
        .expect(0);
        let info = densite(&["info", &b, "--json"]).expect(0).json();
        let told = info["vacuum"]["maintained_bytes"]
            .as_f64()
            .expect("a number");
        let before = info["stored_bytes"].as_f64().expect("a number");
        assert!(told < before * 0.8, "{info}");
        densite(&["sql", &b, "PRAGMA densite_maintain"]).expect(0);
        let is = std::fs::metadata(&b).expect("there").len() as f64;
        let off = (told - is).abs() / is;
        assert!(off < 0.08, "{journal}: told {told}, is {is} of {before}");
        let text = densite(&["info", &b]).expect(0).out;
        assert!(text.contains("maintenance reclaims"), "{text}");
    }
}

/// Small files can have any amount of dead and free bytes.
#[test]
fn info_estimates_nothing_for_a_small_file() {
    let dir = temp();
    let b = at(&dir, "b.db");
    let script = "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<400)
           INSERT INTO t SELECT i, hex(randomblob(200)) FROM n;
         DELETE FROM t WHERE id % 2";
    densite(&["sql", "--create", &format!("file:{b}?maintain=off"), script]).expect(0);
    let info = densite(&["info", &b, "--json"]).expect(0).json();
    assert!(info["vacuum"]["dead_bytes"].as_u64() > Some(0), "{info}");
    assert_eq!(
        info["vacuum"]["maintained_bytes"], info["stored_bytes"],
        "{info}"
    );
    let text = densite(&["info", &b]).expect(0).out;
    assert!(text.contains("maintenance reclaims  nothing"), "{text}");
}

/// Databases with one kind of content each, 2 to 6 MB, from a fixed sequence of numbers.
fn kinds() -> [(&'static str, &'static str); 4] {
    let rows = "WITH RECURSIVE n(i, r) AS (SELECT 1, 1 UNION ALL SELECT i+1, (r*1103515245+12345) % 2147483648 FROM n WHERE i<ROWS)";
    let word = |from: &str| format!("substr(hex(({from})*2654435761 % 4294967296), 1, 8)");
    let (a, b, c) = (word("r % 997"), word("r / 7 % 811"), word("r / 3 % 613"));
    let texts = format!("{a} || ' ' || {b} || ' ' || {c}");
    let of = |table: &str, count: u32, values: &str| -> &'static str {
        let rows = rows.replace("ROWS", &count.to_string());
        format!("{table}; {rows} INSERT INTO t SELECT {values} FROM n").leak()
    };
    [
        (
            "rows",
            of(
                "CREATE TABLE t(a INT, b INT, c REAL, d TEXT, e TEXT, PRIMARY KEY(a, b)); CREATE INDEX t_b ON t(b)",
                30_000,
                &format!("i/4, i%4, (r%100000)/100.0, date(r%300000000, 'unixepoch'), {a}"),
            ),
        ),
        (
            "logs",
            of(
                "CREATE TABLE t(id INTEGER PRIMARY KEY, at INT, host TEXT, message TEXT); CREATE INDEX t_h ON t(host, at)",
                25_000,
                &format!(
                    "i, 1700000000+i*3+r%3, 'host' || r%40, 'request took ' || r%900 || ' ms ' || {texts}"
                ),
            ),
        ),
        (
            "documents",
            of(
                "CREATE TABLE t(id TEXT PRIMARY KEY, j TEXT)",
                12_000,
                &format!(
                    "hex(r*i), '{{\"user\":\"' || {a} || '\",\"n\":' || i || ',\"body\":\"' || {texts} || {texts} || '\"}}'"
                ),
            ),
        ),
        (
            "blobs",
            of(
                "CREATE TABLE t(id INTEGER PRIMARY KEY, doc TEXT, data BLOB)",
                900,
                &format!(
                    "i, replace(hex(zeroblob(40)), '00', {texts}), CASE WHEN i%3 THEN CAST(replace(hex(zeroblob(150)), '00', {b} || r) AS BLOB) END"
                ),
            ),
        ),
    ]
}

fn length(path: &str) -> u64 {
    fs::metadata(path).expect("metadata").len()
}

#[test]
fn vacuum_does_not_enlarge_a_fresh_file() {
    for (name, sql) in kinds() {
        let dir = temp();
        let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
        let db = Connection::open(&a).expect("open");
        db.execute_batch(sql).expect(name);
        drop(db);
        densite(&["compress", &a, &b]).expect(0);
        let before = length(&b);
        let ran = densite(&["vacuum", &b, "--yes", "--json"]).expect(0);
        let said = ran.json();
        let written = said["written_bytes"].as_u64().expect("a number");
        assert!(
            written <= before + before / 50,
            "{name}: {before} to {written}"
        );
        assert_eq!(said["replaced"], written <= before, "{said}");
        assert!(length(&b) <= before, "{name}");
        assert_eq!(said["bytes_after"], length(&b));
        assert_eq!(names(dir.path()), ["a.db", "b.db"]);
    }
}

#[test]
fn a_larger_file_never_replaces_the_old_one() {
    let dir = temp();
    let (a, b) = (at(&dir, "a.db"), at(&dir, "b.db"));
    let [.., (_, blobs)] = kinds();
    let db = Connection::open(&a).expect("open");
    db.execute_batch(blobs).expect("fill");
    drop(db);
    // Compressed at a higher level than a vacuum uses.
    densite(&["compress", &a, &b, "--level", "22"]).expect(0);
    let before = fs::read(&b).expect("read");
    let said = densite(&["vacuum", &b, "--yes", "--json"]).expect(0).json();
    assert_eq!(said["replaced"], false, "{said}");
    assert_eq!(said["bytes_after"], said["bytes_before"]);
    assert_eq!(said["freed_bytes"], 0);
    assert!(said["written_bytes"].as_u64() > Some(before.len() as u64));
    let text = densite(&["vacuum", &b, "--yes"]).expect(0).out;
    assert!(text.contains("not changed"), "{text}");
    assert!(fs::read(&b).expect("read") == before, "the file changed");
    assert_eq!(names(dir.path()), ["a.db", "b.db"]);
}

/// Number of pages that are stored with a codec.
fn pages(path: &str, codec: &str) -> u64 {
    let info = densite(&["info", path, "--json"]).expect(0).json();
    let objects = info["objects"].as_array().expect("an array").iter();
    objects.filter_map(|o| o["codecs"][codec].as_u64()).sum()
}

#[test]
fn an_archive_stays_an_archive() {
    for (name, sql) in kinds() {
        let dir = temp();
        let (a, b, c) = (at(&dir, "a.db"), at(&dir, "b.db"), at(&dir, "c.db"));
        let db = Connection::open(&a).expect("open");
        db.execute_batch(sql).expect(name);
        // Deleting rows gives the vacuum space to free.
        db.execute_batch("DELETE FROM t WHERE rowid%3=0")
            .expect(name);
        drop(db);
        densite(&["compress", "--archive", &a, &b]).expect(0);
        let done = densite(&["vacuum", &b, "--yes", "--json"]).expect(0).json();
        assert_eq!(done["replaced"], true, "{name}: {done}");
        // The result must be as small as an archive of the vacuumed database.
        densite(&["vacuum", &a, "--yes"]).expect(0);
        densite(&["compress", "--archive", &a, &c]).expect(0);
        let (is, want) = (length(&b), length(&c));
        assert!(is.abs_diff(want) <= want / 50, "{name}: {is}, {want}");
        for codec in ["archive", "typed_run", "zstd_dict", "typed"] {
            let (is, want) = (pages(&b, codec), pages(&c, codec));
            assert!(
                is.abs_diff(want) <= want / 10 + 40,
                "{name} {codec}: {is}, {want}"
            );
        }
        // An ordinary file does not become an archive.
        fs::remove_file(&c).expect("remove");
        densite(&["compress", &a, &c]).expect(0);
        // Free pages and overflow pages of any file can share frames.
        let freed = "CREATE TABLE gone(x);
             INSERT INTO gone SELECT randomblob(20000) FROM t LIMIT 50; DROP TABLE gone";
        densite(&["sql", &format!("file:{c}?maintain=off"), freed]).expect(0);
        densite(&["vacuum", &c, "--yes"]).expect(0);
        assert_eq!(pages(&c, "archive") + pages(&c, "typed_run"), 0, "{name}");
        assert_eq!(names(dir.path()), ["a.db", "b.db", "c.db"]);
    }
}

#[test]
fn hot_journals_and_wals_are_recovered_first() {
    for (compressed, sql, want) in [
        (
            false,
            "PRAGMA cache_size=5; BEGIN; UPDATE t SET name='half done'",
            "name",
        ),
        (
            true,
            "PRAGMA cache_size=5; BEGIN; UPDATE t SET name='half done'",
            "name",
        ),
        (
            false,
            "PRAGMA journal_mode=WAL; UPDATE t SET name='in the log'",
            "in the log",
        ),
        (
            true,
            "PRAGMA journal_mode=WAL; UPDATE t SET name='in the log'",
            "in the log",
        ),
    ] {
        let dir = temp();
        let a = at(&dir, "a.db");
        plain(&a, 4096, 3000);
        if compressed {
            densite(&["compress", &a]).expect(0);
        }
        let mut other = Other::on(&a);
        other.run(sql);
        other.kill();
        assert!(names(dir.path()).len() > 1, "nothing was left");
        densite(&["vacuum", &a, "--yes"]).expect(0);
        let rows = dump(&a);
        assert!(rows.contains(want) && !rows.contains("half done"));
        assert_eq!(names(dir.path()), ["a.db"]);
    }
}

#[test]
fn owner_mode_and_symbolic_links_are_kept() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let dir = temp();
    fs::create_dir(dir.path().join("real")).expect("mkdir");
    let (real, link) = (at(&dir, "real/a.db"), at(&dir, "link.db"));
    plain(&real, 4096, 3000);
    std::os::unix::fs::symlink("real/a.db", &link).expect("symlink");
    chmod(&real, 0o640);
    if fs::metadata(&real).expect("metadata").uid() == 0 {
        chown(&real, Some(12345), Some(23456)).expect("chown");
    }
    let owner = |path: &str| {
        let m = fs::metadata(path).expect("metadata");
        (m.uid(), m.gid(), m.permissions().mode() & 0o7777)
    };
    let before = owner(&real);
    densite(&["vacuum", &link, "--yes"]).expect(0);
    assert_eq!(owner(&real), before);
    assert!(fs::symlink_metadata(&link).expect("metadata").is_symlink());
    assert_eq!(names(dir.path()), ["link.db", "real"]);
    assert_eq!(names(&dir.path().join("real")), ["a.db"]);
    // A relative path in the current directory.
    let mut here = Command::new(DENSITE);
    here.args(["vacuum", "a.db", "--yes"]);
    run(here.current_dir(dir.path().join("real"))).expect(0);
}

#[test]
fn vacuum_asks_and_accepts_no() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 3000);
    let before = snapshot(dir.path());
    let ran = densite(&["vacuum", &a, "--quiet", "--json"]).expect(6);
    assert!(ran.err.contains("give --yes"), "{ran:?}");
    assert_eq!(ran.json()["error"]["kind"], "declined");
    // On a terminal, which `script` of util-linux creates.
    let answered = |answer: &str| {
        let command = format!("{DENSITE} vacuum {a}");
        let shell = format!("printf '{answer}\\n' | script -qec '{command}' /dev/null");
        run(Command::new("sh").args(["-c", &shell]))
    };
    for no in ["n", "", "maybe"] {
        let ran = answered(no);
        assert_eq!(ran.code, 6, "{ran:?}");
        assert!(ran.out.contains("a vacuum reclaims about"), "{ran:?}");
        assert!(ran.out.contains("now? [y/N]"), "{ran:?}");
    }
    assert!(snapshot(dir.path()) == before);
    let ran = answered("y");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(snapshot(dir.path()) != before);
}

#[test]
fn damage_that_only_sqlite_finds_is_reported() {
    // SQLite can read all pages of this table, but a row of its index is missing in it. Digests do
    // not detect this, and need not.
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 3000);
    let bytes = fs::read(&a).expect("read");
    // A leaf of t becomes an invalid page.
    let victim = bytes
        .chunks(4096)
        .position(|p| p[0] == 13 && p.windows(5).any(|w| w == b"name "))
        .expect("a leaf");
    let mut broken = bytes.clone();
    broken[victim * 4096] = 0x77;
    fs::write(&a, &broken).expect("write");
    let ran = densite(&["vacuum", &a, "--yes"]);
    assert_eq!(ran.code, 5, "{ran:?}");
    assert!(ran.err.contains("a.db is damaged"), "{ran:?}");
    assert!(fs::read(&a).expect("read") == broken);
    assert_eq!(names(dir.path()), ["a.db"]);
}

/// The level is not stored in the file, so each verb that compresses all pages takes it.
#[test]
fn vacuum_and_publish_compress_at_a_level() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let con = rusqlite::Connection::open(&db).expect("opens");
    con.execute_batch("CREATE TABLE t(a)").expect("a table");
    let mut n: u64 = 1;
    for _ in 0..60 {
        let words = (0..4000).map(|_| {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("w{} ", (n >> 40) % 900)
        });
        con.execute("INSERT INTO t VALUES (?1)", [words.collect::<String>()])
            .expect("a row");
    }
    drop(con);
    densite(&["compress", &db]).expect(0);
    let sizes = ["-7", "19"].map(|level| {
        densite(&["vacuum", &db, "--yes", "--level", level]).expect(0);
        let vacuumed = fs::metadata(&db).expect("a file").len();
        let to = at(&dir, level);
        densite(&["publish", &db, &to, "--level", level]).expect(0);
        (vacuumed, fs::metadata(&to).expect("a file").len())
    });
    let [(fast, fast_copy), (small, small_copy)] = sizes;
    assert!(small * 50 < fast * 49, "{sizes:?}");
    assert!(small_copy * 50 < fast_copy * 49, "{sizes:?}");
    let to = at(&dir, "none");
    for verb in [&["vacuum", &db][..], &["publish", &db, &to]] {
        let args = [verb, &["--level", "23"]].concat();
        densite(&args).expect(2).says("23");
    }
}

//! URI parameters, PRAGMAs and SQL functions.

use super::*;
use densite_tests::model::folder;

#[test]
fn every_uri_parameter_takes_effect() {
    let dir = folder();
    for (i, parameters) in [
        "level=-7",
        "level=22",
        "threads=0",
        "threads=4",
        "decoded_cache=0",
        "decoded_cache=1",
        "run_pages=1",
        "run_pages=16",
        "run_pages=auto",
        "codec=auto",
        "codec=zstd",
        "codec=raw",
        "readahead=on",
        "readahead=off",
        "readahead=auto",
        "maintain=on",
        "maintain=off",
        "densite=on",
        "cache=shared",
        "nolock=1",
        "level=1&threads=0&decoded_cache=0&run_pages=4&codec=zstd&readahead=off",
    ]
    .into_iter()
    .enumerate()
    {
        let path = dir.path().join(format!("{i}.db"));
        let db = try_densite(&path, parameters).unwrap_or_else(|e| panic!("{parameters}: {e}"));
        db.execute_batch(SOME_ROWS)
            .unwrap_or_else(|e| panic!("{parameters}: {e}"));
        check_rows(&db);
        drop(db);
        assert!(starts_with(&path, MAGIC), "{parameters}");
        let db = densite(&path);
        check_rows(&db);
        db.execute_batch("DELETE FROM t WHERE id % 2; VACUUM")
            .expect("change it with other settings");
        assert_eq!(text(&db, "PRAGMA integrity_check"), "ok", "{parameters}");
    }
}

#[test]
fn a_wrong_uri_value_is_refused_with_the_value_and_what_to_use() {
    let dir = folder();
    let wrong = [
        ("level=23", "-7 to 22"),
        ("level=-8", "-7 to 22"),
        ("level=best", "-7 to 22"),
        ("level=", "-7 to 22"),
        ("threads=-1", "from 0 to"),
        ("threads=many", "from 0 to"),
        ("threads=100000", "from 0 to"),
        ("decoded_cache=64MiB", "MiB"),
        ("decoded_cache=-1", "MiB"),
        ("run_pages=0", "power of two"),
        ("run_pages=3", "power of two"),
        ("run_pages=4096", "power of two"),
        ("codec=lz4", "use auto"),
        ("readahead=maybe", "on, off or auto"),
        ("maintain=1", "on or off"),
        ("densite=no", "on or off"),
    ];
    for (parameter, advice) in wrong {
        for exists in [false, true] {
            let path = dir.path().join("app.db");
            if exists {
                let db = densite(&path);
                db.execute_batch(SOME_ROWS).expect("write");
            }
            let before = exists.then(|| std::fs::read(&path).expect("read"));
            let error = try_densite(&path, parameter).expect_err("a wrong value");
            let message = code_of(&error).1;
            for part in [parameter, advice, "app.db"] {
                assert!(
                    message.contains(part),
                    "{parameter}: {message:?} does not say {part:?}"
                );
            }
            assert_eq!(
                before,
                std::fs::read(&path).ok(),
                "{parameter}: the file was touched"
            );
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[test]
fn a_wrong_uri_value_in_attach_is_refused() {
    let dir = folder();
    let db = densite(&dir.path().join("app.db"));
    let other = dir.path().join("other.db");
    let sql = format!("ATTACH 'file:{}?level=99' AS other", other.display());
    let attached = db
        .execute_batch(&sql)
        .and_then(|()| db.execute_batch("CREATE TABLE other.t(x)"));
    assert_eq!(
        code_of(&attached.expect_err("a wrong value")).0,
        rusqlite::ffi::SQLITE_CANTOPEN
    );
    assert!(!other.exists(), "the file was made all the same");
    let said = densite_vfs::take_last_error().expect("a sentence of Densite's");
    assert!(
        said.contains("level=99") && said.contains("other.db"),
        "{said}"
    );
}

#[test]
fn pragmas_read_and_set() {
    let dir = folder();
    let path = dir.path().join("app.db");
    let db = try_densite(&path, "level=7&threads=2&decoded_cache=9").expect("open");
    // The URI's value is visible even before the file has content.
    assert_eq!(number(&db, "PRAGMA densite_level"), 7);
    db.execute_batch(SOME_ROWS).expect("write");
    assert_eq!(number(&db, "PRAGMA densite_level"), 7);
    assert_eq!(number(&db, "PRAGMA densite_threads"), 2);
    assert_eq!(number(&db, "PRAGMA densite_decoded_cache"), 9);
    for (pragma, values) in [
        ("densite_level", [-7, 22, 1]),
        ("densite_threads", [0, 3, 1]),
        ("densite_decoded_cache", [0, 128, 1]),
    ] {
        for value in values {
            assert_eq!(number(&db, &format!("PRAGMA {pragma} = {value}")), value);
            assert_eq!(number(&db, &format!("PRAGMA main.{pragma}")), value);
            assert_eq!(
                number(&db, &format!("PRAGMA {}", pragma.to_uppercase())),
                value
            );
            db.execute_batch("UPDATE t SET x = x || '.'")
                .expect("write with it");
        }
    }
    assert_eq!(text(&db, "PRAGMA integrity_check"), "ok");
    for (sql, advice) in [
        ("PRAGMA densite_level = 23", "-7 to 22"),
        ("PRAGMA densite_level = high", "-7 to 22"),
        ("PRAGMA densite_threads = -1", "from 0 to"),
        ("PRAGMA densite_decoded_cache = lots", "MiB"),
    ] {
        let error = try_text(&db, sql).expect_err("a wrong value");
        assert!(code_of(&error).1.contains(advice), "{sql}: {error}");
    }
    // A wrong value changes nothing.
    assert_eq!(number(&db, "PRAGMA densite_level"), 1);
    // The defaults are zstd level 3 and a cache that grows. A setting belongs to its connection.
    let other = densite(&path);
    assert_eq!(number(&other, "PRAGMA densite_level"), 3);
    assert_eq!(text(&other, "PRAGMA densite_decoded_cache"), "auto");
    assert!(number(&other, "PRAGMA densite_threads") >= 1);
}

#[test]
fn pragmas_have_no_effect_on_a_plain_file() {
    let dir = folder();
    let path = dir.path().join("plain.db");
    plain(&path).execute_batch(SOME_ROWS).expect("write");
    let db = densite(&path);
    assert!(matches!(
        try_text(&db, "PRAGMA densite_level"),
        Err(rusqlite::Error::QueryReturnedNoRows)
    ));
    check_rows(&db);
}

#[test]
fn version_is_text_and_the_vfs_has_its_name() {
    let dir = folder();
    let db = densite(&dir.path().join("app.db"));
    assert_eq!(
        text(&db, "SELECT densite_version()"),
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(text(&db, "SELECT typeof(densite_version())"), "text");
    assert!(
        db.query_row("SELECT densite_version(1)", [], |_| Ok(()))
            .is_err(),
        "it takes nothing"
    );
}

#[test]
fn info_gives_the_figures() {
    let dir = folder();
    let path = dir.path().join("app.db");
    let db = densite(&path);
    db.execute_batch("PRAGMA page_size = 4096")
        .expect("page size");
    db.execute_batch(SOME_ROWS).expect("write");
    let info = |name: &str| {
        number(
            &db,
            &format!("SELECT value FROM densite_info('main') WHERE name = '{name}'"),
        )
    };
    assert_eq!(
        text(
            &db,
            "SELECT value FROM densite_info('main') WHERE name = 'kind'"
        ),
        "densite"
    );
    assert_eq!(info("page_size"), 4096);
    assert_eq!(info("pages"), number(&db, "PRAGMA page_count"));
    assert_eq!(info("logical_bytes"), info("pages") * 4096);
    let stored = std::fs::metadata(&path).expect("the file").len();
    assert_eq!(info("stored_bytes"), i64::try_from(stored).expect("small"));
    assert!(info("stored_bytes") < info("logical_bytes"));
    // Without an argument it is main. Every figure is a number, and its name is unique.
    assert_eq!(
        number(&db, "SELECT count(*) FROM densite_info"),
        number(&db, "SELECT count(DISTINCT name) FROM densite_info('main')")
    );
    assert_eq!(
        number(
            &db,
            "SELECT count(*) FROM densite_info WHERE name <> 'kind' AND typeof(value) <> 'integer'"
        ),
        0
    );
    // This also works in a transaction that has changed the file.
    db.execute_batch("BEGIN; INSERT INTO t(x) VALUES ('more')")
        .expect("begin");
    assert_eq!(info("page_size"), 4096);
    db.execute_batch("ROLLBACK").expect("roll back");

    let error = try_text(&db, "SELECT * FROM densite_info('nowhere')").expect_err("no such schema");
    assert!(code_of(&error).1.contains("nowhere"), "{error}");

    let other = dir.path().join("other.db");
    plain(&other).execute_batch(SOME_ROWS).expect("write");
    db.execute_batch(&format!("ATTACH '{}' AS other", other.display()))
        .expect("attach");
    assert_eq!(
        text(
            &db,
            "SELECT value FROM densite_info('other') WHERE name = 'kind'"
        ),
        "plain"
    );
    assert_eq!(
        number(
            &db,
            "SELECT value FROM densite_info('other') WHERE name = 'pages'"
        ),
        number(&db, "PRAGMA other.page_count")
    );
}

//! URI parameters and PRAGMAs: right values are accepted, wrong ones are refused with a reason.

use crate::common::{self, Place, fill, int, run, text};

#[test]
fn parameters_take_effect() {
    let place = Place::new();
    let all =
        "&level=-3&threads=2&decoded_cache=8&run_pages=4&codec=zstd&readahead=off&maintain=off";
    let db = place.try_open("x.db", all).expect("opens");
    assert_eq!(text(&db, "PRAGMA densite_level"), "-3");
    assert_eq!(text(&db, "PRAGMA densite_threads"), "2");
    assert_eq!(text(&db, "PRAGMA densite_decoded_cache"), "8");
    fill(&db, 1000);
    assert_eq!(text(&db, "PRAGMA densite_level"), "-3");
    drop(db);
    for codec in ["auto", "raw"] {
        let db = place
            .try_open("x.db", &format!("&codec={codec}&run_pages=auto"))
            .expect("opens");
        assert_eq!(int(&db, "SELECT count(*) FROM t"), 1000);
    }
}

#[test]
fn wrong_parameters_are_refused_with_the_reason_and_touch_nothing() {
    let place = Place::new();
    for (parameter, part) in [
        ("level=23", "level=23"),
        ("level=fast", "level=fast"),
        ("threads=-1", "threads=-1"),
        ("decoded_cache=lots", "decoded_cache=lots"),
        ("run_pages=3", "run_pages=3"),
        ("codec=lz4", "codec=lz4"),
        ("readahead=sometimes", "readahead=sometimes"),
        ("maintain=2", "maintain=2"),
        ("densite=perhaps", "densite=perhaps"),
    ] {
        let error = place
            .try_open("x.db", &format!("&{parameter}"))
            .expect_err("refused");
        let message = error.to_string();
        assert!(
            message.contains(part) && message.contains("use "),
            "{parameter}: {message}"
        );
        assert!(
            message.starts_with(place.path("x.db").to_str().expect("text")),
            "{message}"
        );
        let kept = densite_vfs::take_last_error().expect("a message for the library");
        assert!(kept.contains(part), "{kept}");
        assert!(densite_vfs::take_last_error().is_none());
        assert!(!place.path("x.db").exists(), "{parameter}");
    }
}

#[test]
fn a_wrong_parameter_in_attach_is_an_error_too() {
    let place = Place::new();
    let db = place.open("x.db");
    let path = place.path("y.db");
    let sql = format!("ATTACH 'file:{}?vfs=densite&level=99' AS y", path.display());
    assert!(db.execute_batch(&sql).is_err());
    assert!(
        densite_vfs::take_last_error()
            .expect("a message")
            .contains("level=99")
    );
    assert!(!path.exists());
    fill(&db, 10);
}

#[test]
fn pragmas_set_and_read() {
    let place = Place::new();
    let db = place.open("x.db");
    // Before the first write, and after it.
    for _ in 0..2 {
        assert_eq!(text(&db, "PRAGMA densite_level=9"), "9");
        assert_eq!(text(&db, "PRAGMA densite_threads=0"), "0");
        assert_eq!(text(&db, "PRAGMA main.densite_decoded_cache=1"), "1");
        assert_eq!(text(&db, "PRAGMA DENSITE_LEVEL"), "9");
        for (pragma, part) in [
            ("densite_level=99", "level=99"),
            ("densite_level=fast", "level=fast"),
            ("densite_threads=1000", "threads=1000"),
            ("densite_decoded_cache=-5", "decoded_cache=-5"),
        ] {
            let error = db
                .execute_batch(&format!("PRAGMA {pragma}"))
                .expect_err("refused");
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(text(&db, "PRAGMA densite_level"), "9");
        fill(&db, 10);
    }
    // A plain file has no such settings.
    let rows = |db: &rusqlite::Connection, sql: &str| {
        let mut stmt = db.prepare(sql).expect("compiles");
        let mut rows = stmt.query([]).expect("runs");
        let mut n = 0;
        while rows.next().expect("runs").is_some() {
            n += 1;
        }
        n
    };
    fill(&place.plain("plain.db"), 1);
    assert_eq!(rows(&place.open("plain.db"), "PRAGMA densite_level"), 0);
}

#[test]
fn registering_again_changes_nothing() {
    let api = common::densite();
    densite_vfs::register(api, densite_vfs::NAME, None, false).expect("again");
    densite_vfs::register(api, c"densite-two", Some(c"unix-dotfile"), false).expect("another");
    densite_vfs::register(api, c"densite-two", Some(c"unix-dotfile"), false).expect("again");
    let error = densite_vfs::register(api, c"densite-three", Some(c"no such vfs"), false)
        .expect_err("no host");
    assert!(error.message.contains("no such vfs"));
    assert_eq!(
        densite_vfs::host_vfs(api).expect("registered").name(),
        "unix"
    );
    let place = Place::new();
    let db = place
        .try_open_over("densite-two", "x.db", "")
        .expect("opens");
    fill(&db, 10);
    // unix-dotfile has no shared memory, so no WAL.
    assert_eq!(text(&db, "PRAGMA journal_mode=WAL"), "delete");
    run(&db, "VACUUM");
    assert_eq!(int(&db, "SELECT count(*) FROM t"), 10);
}

#[test]
fn unknown_parameters_are_refused_with_the_nearest_one_that_is_known() {
    let place = Place::new();
    for (parameter, nearest) in [
        ("levle=9", "level"),
        ("decoded-cache=8", "decoded_cache"),
        ("application=x", "maintain"),
    ] {
        let error = place.try_open("x.db", &format!("&{parameter}"));
        let message = error.expect_err("refused").to_string();
        let (name, _) = parameter.split_once('=').expect("a value");
        assert!(
            message.contains(&format!("{name} is not known: did you mean {nearest}?"))
                && message.starts_with(place.path("x.db").to_str().expect("text")),
            "{message}"
        );
        assert!(!place.path("x.db").exists(), "{parameter}");
    }
    let theirs = "&mode=rwc&cache=private&psow=1&_busy_timeout=100&rbu_exclusive_checkpoint=1";
    fill(&place.try_open("x.db", theirs).expect("opens"), 10);
}

#[test]
fn parameters_of_sqlite_are_accepted() {
    let place = Place::new();
    let db = place.open("x.db");
    fill(&db, 10);
    let copy = place.path("copy.db");
    let copy = copy.to_str().expect("text");
    run(
        &db,
        &format!("VACUUM INTO 'file:{copy}?vfs=densite&reserve=12'"),
    );
    let theirs = "&exclusive=0&readonly_shm=0&8_3_names=0&freeonclose=0&chunksize=1&truncate=1";
    let opened = place.try_open("copy.db", theirs).expect("opens");
    assert_eq!(int(&opened, "SELECT count(*) FROM t"), 10);
}

#[test]
fn unknown_pragmas_are_refused_with_the_nearest_one_that_is_known() {
    let place = Place::new();
    fill(&place.open("x.db"), 1);
    fill(&place.plain("plain.db"), 1);
    for name in ["x.db", "new.db", "plain.db"] {
        let db = place.open(name);
        for (pragma, nearest) in [
            ("densite_levle", "densite_level"),
            ("densite_levle=9", "densite_level"),
            ("densite_maintian", "densite_maintain"),
        ] {
            let error = db.execute_batch(&format!("PRAGMA {pragma}"));
            let message = error.expect_err("refused").to_string();
            let said = format!("is not known: did you mean {nearest}?");
            assert!(message.contains(&said), "{name}: {message}");
        }
    }
}

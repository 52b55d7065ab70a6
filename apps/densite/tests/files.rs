//! Converting, vacuuming and checking files.

use densite::rusqlite::Connection;
use densite::{ConvertOptions, Error, FileError, Form, Progress, Silent, SpaceUse, VacuumOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

fn plain(dir: &Path) -> PathBuf {
    let path = dir.join("plain.db");
    let con = Connection::open(&path).expect("opens");
    con.execute_batch(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
         INSERT INTO t SELECT i, 'row number ' || i FROM n",
    )
    .expect("rows");
    path
}

fn rows(path: &Path) -> i64 {
    densite::open(path)
        .expect("opens")
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .expect("a number of rows")
}

#[test]
fn a_database_of_a_known_program_is_replaced_only_if_that_is_said() {
    let dir = tempfile::tempdir().expect("a directory");
    let plain = plain(dir.path());
    let con = Connection::open(&plain).expect("opens");
    // That of a GeoPackage.
    con.pragma_update(None, "application_id", 0x4750_4B47)
        .expect("set");
    drop(con);
    let refused = densite::compress_in_place(&plain).expect_err("QGIS could not open it");
    assert!(refused.to_string().contains("known_program"), "{refused}");
    assert_eq!(densite::info(&plain).expect("figures").form, Form::Plain);
    let options = ConvertOptions::new().known_program(true);
    options
        .compress_in_place(&plain, &mut Silent)
        .expect("compresses");
    assert_eq!(rows(&plain), 20_000);
}

#[test]
fn a_file_is_compressed_and_decompressed() {
    let dir = tempfile::tempdir().expect("a directory");
    let plain = plain(dir.path());
    let (small, back) = (dir.path().join("small ü.db"), dir.path().join("back.db"));
    let report = densite::compress(&plain, &small).expect("compresses");
    assert!(report.ratio() < 0.5 && !report.in_place, "{report:?}");
    let info = densite::info(&small).expect("figures");
    assert_eq!(
        (info.form, info.logical_bytes),
        (Form::Compressed, report.source_bytes)
    );
    assert!(densite::check(&small).expect("can be checked").ok());
    densite::decompress(&small, &back).expect("decompresses");
    assert_eq!(
        std::fs::read(&plain).expect("bytes"),
        std::fs::read(&back).expect("bytes")
    );
    let report = densite::compress_in_place(&back).expect("compresses");
    assert!(report.in_place);
    densite::decompress_in_place(&back).expect("decompresses");
    assert_eq!(densite::info(&back).expect("figures").form, Form::Plain);
    assert_eq!(rows(&back), 20_000);
}

#[test]
fn options_are_kept_and_wrong_ones_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let plain = plain(dir.path());
    let small = dir.path().join("small.db");
    let cases = [
        (
            ConvertOptions::new().level(-8),
            "level is -8; use a number from -7 to 22",
        ),
        (
            ConvertOptions::new().page_size(1000),
            "page_size is 1000; use a power of two from 512 to 65536",
        ),
        (
            ConvertOptions::new().threads(1000),
            "threads is 1000; use a number from 0 to 256",
        ),
    ];
    for (options, message) in cases {
        let error = options
            .compress(&plain, &small, &mut Silent)
            .expect_err("out of range");
        assert_eq!(error.to_string(), message);
    }
    assert!(!small.exists());
    let report = ConvertOptions::new()
        .page_size(8192)
        .threads(0)
        .archive(true)
        .compress(&plain, &small, &mut Silent)
        .expect("compresses");
    assert_eq!(report.page_size, 8192);
    assert_eq!(rows(&small), 20_000);
}

#[test]
fn vacuum_frees_space() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = plain(dir.path());
    let con = Connection::open(&path).expect("opens");
    con.execute("DELETE FROM t WHERE a > 100", [])
        .expect("deletes");
    con.close().expect("closes");
    let report = densite::vacuum(&path).expect("vacuums");
    assert!(report.freed_bytes() > 0 && report.replaced, "{report:?}");
    assert_eq!(report.rows, 100);
    let options = VacuumOptions::new()
        .level(9)
        .threads(1)
        .timeout(Duration::ZERO);
    let lock = Connection::open(&path).expect("opens");
    lock.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let error = options.vacuum(&path, &mut Silent).expect_err("locked");
    assert!(error.is_locked(), "{error:?}");
}

#[test]
fn check_reports_damage_as_a_result() {
    let dir = tempfile::tempdir().expect("a directory");
    let (plain, small) = (plain(dir.path()), dir.path().join("small.db"));
    densite::compress(&plain, &small).expect("compresses");
    let mut bytes = std::fs::read(&small).expect("bytes");
    let at = bytes.len() / 3;
    bytes[at..at + 64].fill(0xaa);
    std::fs::write(&small, bytes).expect("damaged");
    let checked = densite::check(&small).expect("can be checked");
    assert!(!checked.ok() && !checked.problems.is_empty(), "{checked:?}");
}

#[test]
fn errors_say_which_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (plain, missing) = (plain(dir.path()), dir.path().join("missing.db"));
    let file = |error: Error| match error {
        Error::File(error) => error,
        other => panic!("{other:?}"),
    };
    let error = file(densite::info(&missing).expect_err("is missing"));
    assert!(
        matches!(&error, FileError::NotFound { path } if *path == missing),
        "{error}"
    );
    let error = file(densite::compress(&plain, &plain).expect_err("is the source"));
    assert!(
        matches!(&error, FileError::Setting(text) if text.contains("plain.db: this is the source")),
        "{error}"
    );
    let other = dir.path().join("other.db");
    std::fs::write(&other, b"").expect("a file");
    let error = file(densite::compress(&plain, &other).expect_err("exists"));
    assert!(matches!(error, FileError::Exists { .. }), "{error}");
    let error = file(densite::decompress_in_place(&plain).expect_err("is plain"));
    assert!(matches!(error, FileError::AlreadyPlain { .. }), "{error}");
}

#[test]
fn progress_is_reported_and_can_stop() {
    #[derive(Default)]
    struct Stop {
        phases: Vec<&'static str>,
        stop: bool,
    }
    impl Progress for Stop {
        fn phase(&mut self, name: &'static str, _total: u64) {
            self.phases.push(name);
        }
        fn cancelled(&mut self) -> bool {
            self.stop
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (plain, small) = (plain(dir.path()), dir.path().join("small.db"));
    let mut progress = Stop {
        stop: true,
        ..Stop::default()
    };
    let error = ConvertOptions::new()
        .compress(&plain, &small, &mut progress)
        .expect_err("stopped");
    assert!(
        matches!(error, Error::File(FileError::Interrupted { .. })),
        "{error:?}"
    );
    assert!(!small.exists());
    progress.stop = false;
    ConvertOptions::new()
        .compress(&plain, &small, &mut progress)
        .expect("compresses");
    densite::check_with(&small, &mut progress).expect("can be checked");
    assert!(progress.phases.len() > 2, "{:?}", progress.phases);
}

#[test]
fn the_layout_accounts_for_every_byte_of_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let plain = plain(dir.path());
    let small = dir.path().join("small.db");
    densite::compress(&plain, &small).expect("compresses");
    for path in [&plain, &small] {
        let db = densite::open(path).expect("opens");
        db.execute_batch(
            "CREATE TABLE gone AS SELECT * FROM t; CREATE INDEX t_b ON t(b); DROP TABLE gone;
             UPDATE t SET b = 'changed ' || a WHERE a % 50 = 0;",
        )
        .expect("changes");
        drop(db);
        let info = densite::info(path).expect("figures");
        let layout = &info.objects.layout;
        let mut bytes = 0;
        let mut of_objects = vec![0; info.objects.all.len()];
        for (known, n) in layout.parts.iter().flatten() {
            bytes += n;
            if let SpaceUse::Object(i) = known {
                of_objects[*i] += n;
            }
        }
        assert_eq!(bytes, info.stored_bytes, "{path:?}");
        for (object, n) in info.objects.all.iter().zip(of_objects) {
            let expected = object.stored_bytes.unwrap_or(object.raw_bytes);
            assert_eq!(n, expected, "{object:?}");
        }
    }
}

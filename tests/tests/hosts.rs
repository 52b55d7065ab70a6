//! The extension in other SQLite libraries: Debian's shell, the newest library, and one that is too
//! old.
//!
//! These tests do not register Densite statically. They use only the shared library.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use std::process::{Command, Output};

use densite_testing::skip;
use densite_tests::library::{command, library};
use densite_tests::model::folder;
use rusqlite::{Connection, LoadExtensionGuard, OpenFlags, ffi};

/// Runs the shell of SQLite; `None` if it is not installed.
fn shell(args: &[&str]) -> Option<Output> {
    match Command::new("sqlite3")
        .args(["-batch", "-init", "/dev/null"])
        .args(args)
        .output()
    {
        Ok(output) => Some(output),
        Err(error) => {
            skip(&format!("the sqlite3 shell does not run: {error}"));
            None
        }
    }
}

fn said(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    assert_eq!(err, "", "{out}");
    out.into_owned()
}

const ROWS: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
    INSERT INTO t(x) SELECT printf('line %d of a longer text', i) FROM n;";

#[test]
fn the_shell_loads_the_extension_and_uses_it() {
    let dir = folder();
    let path = dir.path().join("app.db").display().to_string();
    let load = format!(".load {}", library().display());
    let open = format!(".open file:{path}?vfs=densite");
    let Some(output) = shell(&[
        ":memory:",
        &load,
        &open,
        ROWS,
        "SELECT count(*), densite_version() FROM t;",
    ]) else {
        return;
    };
    assert_eq!(
        said(&output),
        format!("1000|{}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(
        std::fs::read(&path)
            .expect("read")
            .starts_with(b"Densite format\r\n")
    );

    // Another process, with a named entry point; in WAL mode, with a copy and a dump.
    let load = format!(".load {} sqlite3_densite_init", library().display());
    let backup = format!(".backup {path}.copy");
    let output = shell(&[
        ":memory:",
        &load,
        &open,
        "PRAGMA journal_mode = wal;",
        "DELETE FROM t WHERE id > 10; INSERT INTO t(x) VALUES ('new');",
        "SELECT value FROM densite_info('main') WHERE name = 'kind';",
        "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA integrity_check; VACUUM;",
        &backup,
        ".vfsname",
        ".dump",
    ]);
    let text = said(&output.expect("it ran before"));
    assert!(
        text.starts_with("wal\ndensite\n0|0|0\nok\ndensite/unix"),
        "{text}"
    );
    assert!(text.contains("INSERT INTO t VALUES(11,'new');"), "{text}");
    // `.backup` opens its file through the host's default VFS.
    let output = shell(&[&format!("{path}.copy"), "SELECT count(*) FROM t;"]);
    assert_eq!(said(&output.expect("it ran before")), "11\n");
}

/// The statements of the ingest guide print in the shell what the guide says, on both forms. The
/// shell starts without a busy_timeout.
#[test]
fn the_shell_follows_the_guide_of_ingest() {
    let guide = std::fs::read_to_string("../docs/guides/ingest.md").expect("the guide");
    let (mut statements, mut output) = (String::new(), String::new());
    for block in guide.split("```sql\n").skip(1) {
        let (sql, rest) = block.split_once("```").expect("the end of the statements");
        let (_, rest) = rest.split_once("```text\n").expect("the output");
        statements.push_str(sql);
        output.push_str(rest.split("```").next().unwrap_or_default());
    }
    let dir = folder();
    let load = format!(".load {}", library().display());
    for form in ["", "?vfs=densite"] {
        let name = format!("app{}.db", form.len());
        let path = dir.path().join(name).display().to_string();
        let open = format!(".open file:{path}{form}");
        let Some(ran) = shell(&[":memory:", &load, &open, &statements]) else {
            return;
        };
        assert_eq!(said(&ran), output, "{form}");
    }
}

/// Without the extension the shell refuses the file with an error.
#[test]
fn the_shell_alone_refuses_a_densite_file() {
    let dir = folder();
    let path = dir.path().join("app.db").display().to_string();
    let load = format!(".load {}", library().display());
    let Some(output) = shell(&[
        ":memory:",
        &load,
        &format!(".open file:{path}?vfs=densite"),
        ROWS,
    ]) else {
        return;
    };
    said(&output);
    let output = shell(&[&path, "SELECT count(*) FROM t;"]).expect("it ran before");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("file is not a database"));
}

/// What users do most with the system's shell and with Python, on live and killed files in four
/// journal modes (`tests/foreign`). `make foreign` tries many more programs.
#[test]
fn programs_that_speak_only_sqlites_format_change_no_byte() {
    let dir = folder();
    let mut python = Command::new("python3");
    python
        .args(["-m", "foreign", "--command"])
        .arg(command())
        .arg("--dir")
        .arg(dir.path())
        .args(["--table", "docs/durability/foreign.md"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("PYTHONPATH", "python:tests")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("DENSITE_LIBRARY", library());
    match python.output() {
        Ok(ran) => assert!(
            ran.status.success(),
            "{}{}",
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr)
        ),
        Err(error) => skip(&format!("python3 does not run: {error}")),
    }
}

/// The other entry point, for drivers that open files by path alone. No URI here names a VFS,
/// except for one that selects the host's.
#[test]
fn the_default_entry_point_serves_files_opened_by_path() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let begins = |name: &str| {
        let bytes = std::fs::read(dir.path().join(name)).expect("read");
        String::from_utf8_lossy(bytes.get(..15).expect("a header")).into_owned()
    };
    let Some(output) = shell(&[&at("old.db"), ROWS]) else {
        return;
    };
    said(&output);
    let load = |entry: &str| format!(".load {} {entry}", library().display());
    let open = |name: &str| format!(".open {}", at(name));
    let output = shell(&[
        ":memory:",
        // A process that has also loaded it in the usual way, and repeatedly.
        &load("sqlite3_densite_init"),
        &open("before.db"),
        ROWS,
        &load("sqlite3_densite_default_init"),
        &load("sqlite3_densite_default_init"),
        &open("new.db"),
        "PRAGMA journal_mode = wal;",
        ROWS,
        "CREATE VIRTUAL TABLE temp.t_in USING densite_ingest(t); INSERT INTO t_in VALUES (1001, 'x'); SELECT densite_wait();",
        &format!("ATTACH '{}' AS b;", at("attached.db")),
        "CREATE TABLE b.t AS SELECT * FROM t; SELECT count(*) FROM b.t;",
        // A plain file stays plain and remains usable.
        &open("old.db"),
        "DELETE FROM t WHERE id > 10; SELECT count(*), (SELECT value FROM densite_info('main') WHERE name = 'kind') FROM t;",
        &format!(".open file:{}?densite=off", at("off.db")),
        ROWS,
        &format!(".open file:{}?vfs=unix", at("unix.db")),
        ROWS,
    ]);
    assert_eq!(
        said(&output.expect("it ran before")),
        "wal\n1\n1001\n10|plain\n"
    );
    for densite in ["new.db", "attached.db"] {
        assert_eq!(begins(densite), "Densite format\r", "{densite}");
    }
    for plain in ["old.db", "before.db", "off.db", "unix.db"] {
        assert_eq!(begins(plain), "SQLite format 3", "{plain}");
    }
}

/// As a pool does for each of its connections. The SELECT runs while functions are registered.
#[test]
fn every_connection_can_load_the_extension_by_a_select() {
    let dir = folder();
    let load = format!("SELECT load_extension('{}')", library().display());
    let open = |name: &str| format!(".open file:{}?vfs=densite", dir.path().join(name).display());
    let functions = "SELECT densite_version() > '', densite_host()";
    let Some(output) = shell(&[
        ":memory:",
        &load,
        &format!("{load}, (SELECT value FROM densite_info('main') WHERE name = 'kind')"),
        &open("app.db"),
        ROWS,
        &load,
        &load,
        "SELECT densite_config('changes', 't', 'on'), densite_changes_subscribe('s')",
        &load,
        "DELETE FROM t WHERE id = 1; SELECT count(*) FROM densite_changes('s')",
        &open("app.db"),
        &load,
        functions,
        &format!(
            "SELECT count(*), (SELECT count(load_extension('{}')) FROM t) FROM t",
            library().display()
        ),
    ]) else {
        return;
    };
    assert_eq!(said(&output), "\n|empty\n\n\non|0\n\n1\n\n1|1\n999|0\n");
}

/// For example that of the package and that of a wheel. The first one serves all connections.
#[test]
fn two_copies_of_the_library_serve_one_process() {
    let dir = folder();
    // The file's name tells SQLite the entry point.
    let copy = dir.path().join(library().file_name().expect("a name"));
    std::fs::copy(library(), &copy).expect("a copy");
    let (one, other) = (library().display().to_string(), copy.display().to_string());
    let open = format!(
        ".open file:{}?vfs=densite",
        dir.path().join("app.db").display()
    );
    let count = "SELECT count(*), densite_version() > '' FROM t";
    for (first, second) in [(&one, &other), (&other, &one)] {
        let commands = [
            format!(".load {first}"),
            format!("SELECT load_extension('{first}')"),
        ];
        let commands = commands.iter().flat_map(|load| {
            [
                format!("SELECT load_extension('{second}')"),
                format!(".load {second}"),
                format!(".load {second} sqlite3_densite_default_init"),
            ]
            .map(|again| (load.clone(), again))
        });
        for (load, again) in commands {
            let output = shell(&[
                ":memory:",
                &load,
                &again,
                &open,
                "DROP TABLE IF EXISTS t",
                ROWS,
                &again,
                &load,
                &open,
                count,
                &open,
                count,
            ]);
            let Some(output) = output else { return };
            let text = said(&output);
            assert!(
                text.trim().ends_with("1000|1\n1000|1"),
                "{load}, {again}: {text}"
            );
        }
    }
}

const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_READ_WRITE
    .union(OpenFlags::SQLITE_OPEN_CREATE)
    .union(OpenFlags::SQLITE_OPEN_URI);

/// The newest SQLite (the one linked here): the library stays loaded after the connection that
/// loaded it is closed, and serves all later connections.
#[test]
fn the_newest_library_loads_the_extension_and_keeps_it() {
    let dir = folder();
    let uri = format!("file:{}?vfs=densite", dir.path().join("app.db").display());
    if Connection::open_with_flags(&uri, FLAGS).is_ok() {
        panic!("Densite is there before it was loaded");
    }
    for entry in [None, Some("sqlite3_densite_init")] {
        let loader = Connection::open_in_memory().expect("open");
        // SAFETY: this is our own library, and its initialisation is sound.
        unsafe {
            let _guard = LoadExtensionGuard::new(&loader).expect("allow loading");
            loader
                .load_extension(library(), entry)
                .expect("load the extension");
        }
        let version = loader.query_row("SELECT densite_version()", [], |r| r.get::<_, String>(0));
        assert_eq!(
            version.expect("the loading connection has the functions"),
            env!("CARGO_PKG_VERSION")
        );
    }
    let first = Connection::open_with_flags(&uri, FLAGS).expect("open through the loaded library");
    first.execute_batch(ROWS).expect("write");
    let count =
        |db: &Connection| db.query_row("SELECT count(*) FROM t", [], |r| r.get::<_, i64>(0));
    let other = std::thread::spawn(move || {
        let second = Connection::open_with_flags(&uri, FLAGS).expect("open in another thread");
        second
            .execute_batch("DELETE FROM t WHERE id % 2")
            .expect("write");
        count(&second)
    });
    assert_eq!(other.join().expect("no panic").expect("count"), 500);
    assert_eq!(count(&first).expect("count"), 500);
    let version = first.query_row("SELECT densite_version()", [], |r| r.get::<_, String>(0));
    assert_eq!(
        version.expect("a later connection has the functions"),
        env!("CARGO_PKG_VERSION")
    );
    // This SQLite is part of the program, so its preupdate hook cannot be found. Then recorded tables
    // cannot be written.
    let config = |value: &str| format!("SELECT densite_config('changes', 't', '{value}')");
    let run = |sql: &str| first.query_row(sql, [], |_| Ok(()));
    run(&config("on")).expect("the triggers are made");
    first
        .execute("UPDATE t SET x = x", [])
        .expect("nothing is recorded without a subscriber");
    run("SELECT densite_changes_subscribe('s')").expect("subscribes");
    let refused = first.execute("DELETE FROM t", []).expect_err("no hook");
    assert!(
        refused.to_string().contains("no preupdate hook"),
        "{refused}"
    );
    assert_eq!(count(&first).expect("count"), 500);
    run(&config("off")).expect("the triggers are dropped");
    first
        .execute("DELETE FROM t", [])
        .expect("an ordinary table");
}

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Entry = unsafe extern "C" fn(*mut ffi::sqlite3, *mut *mut c_char, *const c_void) -> c_int;

/// The entry point of the shared library itself.
fn entry_point() -> Entry {
    const RTLD_NOW: c_int = 2;
    let path = CString::new(library().as_os_str().as_encoded_bytes()).expect("no NUL in a path");
    // SAFETY: the strings are terminated. This is our own library, and it is never closed.
    unsafe {
        let library = dlopen(path.as_ptr(), RTLD_NOW);
        assert!(!library.is_null(), "the library does not load");
        let entry = dlsym(library, c"sqlite3_densite_init".as_ptr());
        assert!(!entry.is_null(), "the entry point is not there");
        std::mem::transmute::<*mut c_void, Entry>(entry)
    }
}

/// The message of an entry point. Frees it.
fn message(error: *mut c_char) -> String {
    assert!(!error.is_null(), "no message");
    // SAFETY: SQLite allocated the text, and it is freed once.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        ffi::sqlite3_free(error.cast());
        text
    }
}

/// A host older than 3.37.2 gets an error with its version. This tests the first table with a
/// version and the last one that is too old.
#[test]
fn an_older_host_gets_an_error() {
    static OLD: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);
    extern "C" fn old_version() -> c_int {
        OLD.load(std::sync::atomic::Ordering::Relaxed)
    }
    extern "C" fn old_name() -> *const c_char {
        c"3.37.1".as_ptr()
    }
    let db = Connection::open_in_memory().expect("open");
    // SAFETY: the connection lives until the end of this test.
    let handle = unsafe { db.handle() };
    let entry = entry_point();
    // Only these entries of the table are valid: the others point nowhere.
    let entries = densite_sqlite::routines::entries();
    let mut table = vec![0usize; entries.len()];
    let mut put = |name: &str, address: usize| {
        let entry = entries
            .iter()
            .find(|e| e.name == name)
            .expect("a known entry");
        table[entry.offset / size_of::<usize>()] = address;
    };
    put("libversion", old_name as *const () as usize);
    put("libversion_number", old_version as *const () as usize);
    put("mprintf", ffi::sqlite3_mprintf as *const () as usize);
    for version in [3_037_001, 3_037_000, 3_008_000] {
        OLD.store(version, std::sync::atomic::Ordering::Relaxed);
        let mut error = std::ptr::null_mut();
        // SAFETY: an open connection, a place for the message, and a table like that of an old
        // host.
        let rc = unsafe { entry(handle, &raw mut error, table.as_ptr().cast()) };
        assert_eq!(rc, ffi::SQLITE_ERROR);
        let message = message(error);
        assert!(message.contains("3.37.2"), "{message}");
    }
    // A place for a message is optional.
    // SAFETY: as above.
    let rc = unsafe { entry(handle, std::ptr::null_mut(), table.as_ptr().cast()) };
    assert_eq!(rc, ffi::SQLITE_ERROR);
    // A SQLite that cannot load extensions hands over no table at all.
    // SAFETY: as above; the entry point checks for null.
    let rc = unsafe { entry(handle, std::ptr::null_mut(), std::ptr::null()) };
    assert_eq!(rc, ffi::SQLITE_ERROR);
}

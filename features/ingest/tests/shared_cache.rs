//! Connections with a shared cache share one open file and SQLite's locks on it. Ingest syncs files
//! outside of these locks, so it does not touch that open file.

use crate::common::hooked;

use crate::common::{Db, all, api, create, functions, wait};
use hooked::Hooks;
use rusqlite::{Connection, OpenFlags, ffi};
use std::ffi::{c_int, c_void};
use std::sync::Mutex;

/// The files that were synced.
static SYNCED: Mutex<Vec<usize>> = Mutex::new(Vec::new());

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    SYNCED.lock().expect("alone").push(file as usize);
    // SAFETY: the file belongs to the VFS whose method this is.
    unsafe { hooked::real().0(file, flags) }
}

/// The open file of a connection.
fn file(con: &Connection) -> usize {
    let mut file: *mut c_void = std::ptr::null_mut();
    // SAFETY: the connection is open, and this operation takes a place for a pointer.
    let done = unsafe {
        let place = (&raw mut file).cast::<c_void>();
        let op = ffi::SQLITE_FCNTL_FILE_POINTER;
        ffi::sqlite3_file_control(con.handle(), c"main".as_ptr(), op, place)
    };
    assert_eq!(done, ffi::SQLITE_OK);
    file as usize
}

#[test]
fn a_shared_open_file_is_not_synced() {
    let sync: hooked::Sync = sync;
    let sync = Some(sync);
    hooked::register(
        c"watched",
        Hooks {
            sync,
            ..Hooks::default()
        },
    );
    for (parameter, flags) in [
        ("?cache=shared", OpenFlags::empty()),
        ("", OpenFlags::SQLITE_OPEN_SHARED_CACHE),
        ("", OpenFlags::empty()),
    ] {
        let db = Db::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
        let uri = format!("file:{}{parameter}", db.path().display());
        let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let open = || {
            let con = Connection::open_with_flags_and_vfs(&uri, flags, c"watched").expect("opens");
            assert_eq!(all(&con, "SELECT count(*) FROM t"), ["0"]);
            con
        };
        let (con, other) = (open(), open());
        let is_shared = file(&con) == file(&other);
        assert_eq!(
            is_shared,
            !(parameter.is_empty() && flags.bits() & ffi::SQLITE_OPEN_SHAREDCACHE == 0)
        );
        functions(api(), &con);
        create(&con, "t", "").expect("the ingest table");
        SYNCED.lock().expect("alone").clear();
        con.execute_batch("INSERT INTO t_in VALUES (1)")
            .expect("acknowledged");
        // SQLite's own checkpoints come later, if at all.
        let synced = SYNCED.lock().expect("alone").clone();
        wait(&con);
        assert!(!synced.is_empty(), "the name is synced");
        assert_eq!(synced.contains(&file(&con)), !is_shared, "{uri}");
    }
}

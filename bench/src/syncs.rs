//! Counts the syncs of this process. It replaces `fsync` and `fdatasync` of the C library by
//! functions that count and then call the kernel.
//!
//! SQLite is compiled into this program, so all its syncs come here, through any VFS.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

static SYNCS: AtomicU64 = AtomicU64::new(0);

/// The number of syncs since the process started.
pub(crate) fn count() -> u64 {
    SYNCS.load(Ordering::Relaxed)
}

fn counted(fd: c_int, sync: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<()>) -> c_int {
    SYNCS.fetch_add(1, Ordering::Relaxed);
    if fd < 0 {
        return -1;
    }
    // SAFETY: the caller of fsync vouches for the descriptor, which is only borrowed for the call;
    // -1 was refused above.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    match sync(fd) {
        Ok(()) => 0,
        // The C library sets errno here. SQLite uses it only in its report.
        Err(_) => -1,
    }
}

// SAFETY: same name, signature and contract as the C library's function, which it stands in for
// within this program.
#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    counted(fd, |fd| rustix::fs::fsync(fd))
}

// SAFETY: as for fsync.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    counted(fd, |fd| rustix::fs::fdatasync(fd))
}

#[cfg(test)]
mod tests {
    #[test]
    fn syncs_of_sqlite_are_counted() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let con = rusqlite::Connection::open(dir.path().join("t.db")).expect("it opens");
        con.execute_batch("PRAGMA synchronous=FULL; CREATE TABLE t(a)")
            .expect("a table");
        let before = super::count();
        con.execute_batch("INSERT INTO t VALUES (1)")
            .expect("a row");
        // The journal, the count in its header, its folder, and the database.
        assert!(
            super::count() - before >= 3,
            "{} syncs",
            super::count() - before
        );
    }
}

//! The journal and the WAL of an open main file, under the names that are right for what the file
//! is (docs/decisions/companion-names.md).
//!
//! SQLite makes their names from the database's name, before it has read the file, and passes
//! them to xOpen, xAccess and xDelete. A plain file keeps these names. A Densite file, and an empty
//! file that can become one, has names that no other program looks for. So the VFS finds the open
//! file by the address of SQLite's name, and uses the name of [`Named::now`] instead. A name that no
//! connection of this process owns (of a database that a super-journal lists) goes by what is in
//! that database's file.
//!
//! Invariant: the names change only while the connection holds no lock above SHARED, so a journal
//! is deleted under the name that it was opened under.

use densite_disk::sync::Mutex;
use densite_sqlite::{
    Api, Code, Companions, FileName, HostVfs, OwnedName, PerProcess, Result, ffi,
};
use densite_store::{Kind, probe};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The names by the address of SQLite's name for a journal or a WAL.
#[derive(Default)]
struct Open(Mutex<HashMap<usize, (Arc<Named>, Which)>>);

static OPEN: PerProcess<Open> = PerProcess::new();

/// Which file beside a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// The rollback journal.
    Journal,
    /// The WAL.
    Wal,
}

impl Which {
    fn of(self, name: FileName<'_>) -> Option<FileName<'_>> {
        match self {
            Which::Journal => name.journal(),
            Which::Wal => name.wal(),
        }
    }

    fn ending(self, companions: Companions) -> &'static str {
        match self {
            Which::Journal => companions.journal,
            Which::Wal => companions.wal,
        }
    }
}

/// Both names of the files beside one open main file.
pub(crate) struct Named {
    api: Api,
    /// SQLite's name of the database. Lives until the file is closed.
    sqlites: *const c_char,
    own: OwnedName,
    is_plain: AtomicBool,
}

// SAFETY: the memory behind `sqlites` does not change while the file is open.
unsafe impl Send for Named {}
// SAFETY: as above.
unsafe impl Sync for Named {}

impl Named {
    /// The name of the database.
    pub(crate) fn database(&self) -> Option<FileName<'_>> {
        // SAFETY: the name lives until the file is closed, as `Beside::of` requires.
        unsafe { FileName::from_ptr(self.api, self.sqlites) }
    }

    /// SQLite's name.
    fn plain(&self, which: Which) -> Option<FileName<'_>> {
        which.of(self.database()?)
    }

    /// The name that is right for what the file is now.
    pub(crate) fn now(&self, which: Which) -> Option<FileName<'_>> {
        match self.is_plain.load(Ordering::Acquire) {
            true => self.plain(which),
            false => which.of(self.own.as_name()),
        }
    }

    /// As [`Named::now`], for a file that SQLite closes before it closes the database.
    ///
    /// # Safety
    /// The name is used only while the main file is open.
    pub(crate) unsafe fn until_closed(&self, which: Which) -> Option<FileName<'static>> {
        let name = self.now(which)?.as_ptr();
        // SAFETY: both names live until the main file is closed.
        unsafe { FileName::from_ptr(self.api, name) }
    }
}

/// The names of the files beside a main file, known to the VFS until this is dropped.
pub(crate) struct Beside {
    named: Arc<Named>,
}

impl Beside {
    /// For the database that SQLite opens under `name`.
    ///
    /// # Errors
    /// If out of memory.
    ///
    /// # Safety
    /// `name` lives until this is dropped.
    pub(crate) unsafe fn of(api: Api, name: FileName<'_>) -> Result<Beside> {
        let parameters: Vec<(&CStr, &CStr)> = name
            .keys()
            .map(|key| (key, name.parameter(key).unwrap_or_default()))
            .collect();
        let own = OwnedName::with(api, name.path(), Companions::DENSITE, &parameters)?;
        let named = Arc::new(Named {
            api,
            sqlites: name.as_ptr(),
            own,
            is_plain: AtomicBool::new(false),
        });
        let mut open = OPEN.get().0.lock();
        for which in [Which::Journal, Which::Wal] {
            if let Some(name) = which.of(name) {
                open.insert(name.as_ptr().addr(), (Arc::clone(&named), which));
            }
        }
        drop(open);
        Ok(Beside { named })
    }

    /// The name that is right for what the file is now.
    pub(crate) fn now(&self, which: Which) -> Option<FileName<'_>> {
        self.named.now(which)
    }

    /// SQLite's name.
    pub(crate) fn plain(&self, which: Which) -> Option<FileName<'_>> {
        self.named.plain(which)
    }

    /// The file is plain, or it is not. Returns whether this has changed.
    pub(crate) fn set_plain(&self, is_plain: bool) -> bool {
        self.named.is_plain.swap(is_plain, Ordering::AcqRel) != is_plain
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let mut open = OPEN.get().0.lock();
        open.retain(|_, (named, _)| !Arc::ptr_eq(named, &self.named));
    }
}

/// The open main file that a name of SQLite belongs to; `None` if no connection of this process
/// has it open under that name.
pub(crate) fn owner(path: &CStr) -> Option<(Arc<Named>, Which)> {
    OPEN.get().0.lock().get(&path.as_ptr().addr()).cloned()
}

/// The name in place of one that [`owner`] does not know; `None` if it stays as it is.
pub(crate) fn unowned(host: HostVfs, path: &CStr) -> Option<CString> {
    let bytes = path.to_bytes();
    [Which::Journal, Which::Wal].into_iter().find_map(|which| {
        let database = bytes.strip_suffix(which.ending(Companions::PLAIN).as_bytes())?;
        let database = CString::new(database).ok()?;
        let mut own = database.clone().into_bytes();
        own.extend_from_slice(which.ending(Companions::DENSITE).as_bytes());
        let own = CString::new(own).ok()?;
        is_of_densite(host, &database, &own).then_some(own)
    })
}

/// Whether a database is a Densite file, or an empty one that a connection was about to make one.
fn is_of_densite(host: HostVfs, database: &CStr, own: &CStr) -> bool {
    if host.access(database, ffi::ACCESS_READWRITE) != Ok(true) {
        return false;
    }
    let flags = ffi::OPEN_READONLY | ffi::OPEN_MAIN_DB;
    let Ok((file, _)) = host.open_path(database, &[], flags) else {
        return false;
    };
    match probe(&file) {
        Ok(Kind::Densite) | Err(_) => true,
        Ok(Kind::Empty) => host.access(own, ffi::ACCESS_EXISTS) == Ok(true),
        Ok(Kind::Other) => false,
    }
}

/// What a program that speaks SQLite's format would do with a journal or a WAL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is none.
    Nothing,
    /// It would leave it alone or remove it.
    Cold,
    /// It would play it into the database: a journal that is hot by SQLite's own rule, a WAL that is
    /// not empty.
    Hot,
}

/// What there is at `name`.
///
/// # Errors
/// The host's, if it cannot tell.
pub(crate) fn find(
    host: HostVfs,
    name: FileName<'_>,
    which: Which,
) -> std::result::Result<Found, Code> {
    if !host.access(name.path(), ffi::ACCESS_EXISTS)? {
        return Ok(Found::Nothing);
    }
    let kind = match which {
        Which::Journal => ffi::OPEN_MAIN_JOURNAL,
        Which::Wal => ffi::OPEN_WAL,
    };
    // SAFETY: the file is closed at the end of this function.
    let Ok((file, _)) = (unsafe { host.open(Some(name), ffi::OPEN_READONLY | kind) }) else {
        return Ok(Found::Hot);
    };
    let is_hot = match which {
        Which::Wal => file.file_size()? > 0,
        Which::Journal => {
            let mut first = [0];
            match file.read(&mut first, 0) {
                Ok(()) => first != [0],
                Err(Code::IOERR_SHORT_READ) => false,
                Err(e) => return Err(e),
            }
        }
    };
    Ok(if is_hot { Found::Hot } else { Found::Cold })
}

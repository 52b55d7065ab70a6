//! The table of API pointers that SQLite hands to an extension.

use crate::ffi::{self, Db};
use crate::routines::{Routines, Unused, entries};
use crate::{Code, Error, Result};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;

/// The oldest supported SQLite: 3.37.2.
pub const OLDEST_VERSION: i32 = 3_037_002;

/// The functions of one SQLite library.
///
/// A copyable handle that every object of this crate carries. It is not in a static, because one
/// shared object can serve two SQLite libraries in one process.
#[derive(Clone, Copy)]
pub struct Api(&'static Routines, Option<DbName>);

/// `sqlite3_db_name`: a schema's name by its number; null if there is no such schema.
pub(crate) type DbName = unsafe extern "C" fn(*mut Db, c_int) -> *const c_char;

/// Its offset in the tables since [`DB_NAME_SINCE`]: the ninth entry after the described ones. It
/// is the only entry there that is read.
const DB_NAME_AT: usize = size_of::<Routines>() + size_of::<[usize; 8]>();
const DB_NAME_SINCE: c_int = 3_039_000;

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Api({:p})", self.0)
    }
}

impl PartialEq for Api {
    /// Whether both belong to the same library.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Api {}

/// An extension's entry point, as SQLite calls it.
pub type EntryPoint = unsafe extern "C" fn(*mut Db, *mut *mut c_char, *const c_void) -> c_int;

impl Api {
    /// Takes the table that SQLite passes to an entry point.
    ///
    /// # Errors
    /// If there is no table (SQLite was built without extension loading), if the library is older
    /// than [`OLDEST_VERSION`], or if it lacks a needed function.
    ///
    /// # Safety
    /// `table` is null or the `sqlite3_api_routines` of a SQLite library that stays loaded for the
    /// rest of the process.
    pub unsafe fn from_raw(table: *const c_void) -> Result<Api> {
        if table.is_null() {
            return Err(Error::new(
                Code::ERROR,
                "this SQLite was built without support for extensions; use one that has it",
            ));
        }
        let at = |offset: usize| -> Unused {
            // SAFETY: `offset` is that of a pointer-sized entry. Every table has the entry
            // `libversion_number`. The others are read only after the version has shown that the
            // table reaches that far.
            unsafe { table.cast::<u8>().add(offset).cast::<Unused>().read() }
        };
        let version_number =
            at(std::mem::offset_of!(Routines, libversion_number)).ok_or_else(|| {
                Error::new(
                    Code::ERROR,
                    "this SQLite does not report its version; use SQLite 3.37.2 or newer",
                )
            })?;
        // SAFETY: the fixed order of the table makes this entry an `int (*)(void)`.
        let version = unsafe {
            std::mem::transmute::<unsafe extern "C" fn(), unsafe extern "C" fn() -> c_int>(
                version_number,
            )()
        };
        if version < OLDEST_VERSION {
            return Err(Error::new(
                Code::ERROR,
                format!(
                    "Densite needs SQLite 3.37.2 or newer, and this is {}.{}.{}; use a newer SQLite",
                    version / 1_000_000,
                    version / 1000 % 1000,
                    version % 1000
                ),
            ));
        }
        if let Some(missing) = entries().iter().find(|e| e.used && at(e.offset).is_none()) {
            return Err(Error::new(
                Code::ERROR,
                format!(
                    "this SQLite was built without sqlite3_{}, which Densite needs",
                    missing.name
                ),
            ));
        }
        let db_name = (version >= DB_NAME_SINCE).then(|| at(DB_NAME_AT)).flatten();
        // SAFETY: the fixed order of the table gives this entry this type.
        let db_name =
            db_name.map(|f| unsafe { std::mem::transmute::<unsafe extern "C" fn(), DbName>(f) });
        // SAFETY: the caller guarantees the table and its lifetime. Its version shows that it has
        // all described entries, and those typed as plain functions are not null.
        Ok(Api(unsafe { &*table.cast::<Routines>() }, db_name))
    }

    /// Gets the table of a SQLite that is linked into the program.
    ///
    /// `prime` gets an entry point. It registers it with that library's `sqlite3_auto_extension`,
    /// opens and closes any connection, and removes it with `sqlite3_cancel_auto_extension`.
    ///
    /// # Errors
    /// Those of [`Api::from_raw`], and an error if the entry point was never called.
    ///
    /// # Safety
    /// Only a SQLite library that stays loaded calls the entry point.
    pub unsafe fn capture(prime: impl FnOnce(EntryPoint)) -> Result<Api> {
        thread_local! {
            static TABLE: Cell<*const c_void> = const { Cell::new(std::ptr::null()) };
        }
        unsafe extern "C" fn catch(_: *mut Db, _: *mut *mut c_char, table: *const c_void) -> c_int {
            // A thread that is ending has no such cell; then nothing is captured.
            let _ = TABLE.try_with(|cell| cell.set(table));
            Code::OK.0
        }
        TABLE.with(|cell| cell.set(std::ptr::null()));
        prime(catch);
        // SAFETY: the caller guarantees it.
        unsafe { Api::from_raw(TABLE.with(|cell| cell.replace(std::ptr::null()))) }
    }

    pub(crate) fn raw(self) -> &'static Routines {
        self.0
    }

    /// `None` in libraries before 3.39.
    pub(crate) fn db_name(self) -> Option<DbName> {
        self.1
    }

    /// The table, for code that calls SQLite directly.
    pub fn as_ptr(self) -> *const Routines {
        self.0
    }

    /// The library's version as a number: 3046001 for 3.46.1.
    pub fn version_number(self) -> i32 {
        // SAFETY: takes no argument and returns a constant.
        unsafe { (self.0.libversion_number)() }
    }

    /// The library's version as text.
    pub fn version(self) -> String {
        // SAFETY: returns a static string.
        unsafe { CStr::from_ptr((self.0.libversion)()) }
            .to_string_lossy()
            .into_owned()
    }

    /// Whether the library can be used from several threads at all.
    pub fn is_threadsafe(self) -> bool {
        // SAFETY: takes no argument and returns a constant.
        unsafe { (self.0.xthreadsafe)() != 0 }
    }

    /// Whether the library can be used from a thread that the application does not know. It must be
    /// built with mutexes, and the application must not have disabled them
    /// (`SQLITE_CONFIG_SINGLETHREAD`). If it has, an allocated mutex is a placeholder, and two of
    /// them are equal.
    pub fn has_mutexes(self) -> bool {
        let (Some(alloc), Some(free)) = (self.0.mutex_alloc, self.0.mutex_free) else {
            return false;
        };
        if !self.is_threadsafe() {
            return false;
        }
        // SAFETY: the entries' own types. A mutex of kind FAST (0) is dynamic: allocated here and
        // freed here once.
        unsafe {
            type Alloc = unsafe extern "C" fn(c_int) -> *mut c_void;
            type Free = unsafe extern "C" fn(*mut c_void);
            let alloc = std::mem::transmute::<unsafe extern "C" fn(), Alloc>(alloc);
            let free = std::mem::transmute::<unsafe extern "C" fn(), Free>(free);
            let (one, other) = (alloc(0), alloc(0));
            let real = !one.is_null() && !other.is_null() && one != other;
            free(other);
            free(one);
            real
        }
    }

    /// SQLite's text for a code.
    pub fn describe(self, code: Code) -> String {
        // SAFETY: returns a static string for any number.
        let text = unsafe { (self.0.errstr)(code.0) };
        if text.is_null() {
            return code.meaning().to_string();
        }
        // SAFETY: not null, static and terminated.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }

    /// Writes a line to SQLite's error log (`sqlite3_log`).
    pub fn log(self, code: Code, message: &str) {
        let text = c_string(message);
        // SAFETY: the format is a constant with one `%s`, which gets a terminated string.
        unsafe { (self.0.log)(code.0, c"%s".as_ptr(), text.as_ptr()) }
    }

    /// A copy of `text` in SQLite's memory, which SQLite frees; null if out of memory.
    pub fn string(self, text: &str) -> *mut c_char {
        let text = c_string(text);
        // SAFETY: the format is a constant with one `%s`, which gets a terminated string.
        unsafe { (self.0.mprintf)(c"%s".as_ptr(), text.as_ptr()) }
    }

    /// Frees memory of SQLite's allocator; null is allowed.
    ///
    /// # Safety
    /// `memory` is null, or was allocated by this library, is the caller's to free, and is not used
    /// again.
    pub unsafe fn free(self, memory: *mut c_void) {
        // SAFETY: the caller guarantees it.
        unsafe { (self.0.free)(memory) }
    }

    /// Calls `entry` for every connection opened from now on, until SQLite shuts down. Registering
    /// the same entry point again does nothing.
    ///
    /// # Errors
    /// If out of memory.
    ///
    /// # Safety
    /// `entry` keeps the contract of an extension's entry point and stays loaded.
    pub unsafe fn auto_extension(self, entry: EntryPoint) -> Result<()> {
        // SAFETY: SQLite declares the parameter without its type and calls it as an entry point.
        let rc = unsafe {
            let plain = std::mem::transmute::<EntryPoint, unsafe extern "C" fn()>(entry);
            (self.0.auto_extension)(Some(plain))
        };
        Ok(Code(rc).ok()?)
    }

    /// Removes an entry point of [`Api::auto_extension`]. Returns whether it was registered.
    pub fn cancel_auto_extension(self, entry: EntryPoint) -> bool {
        // SAFETY: SQLite only compares the pointer.
        unsafe {
            let plain = std::mem::transmute::<EntryPoint, unsafe extern "C" fn()>(entry);
            (self.0.cancel_auto_extension)(Some(plain)) != 0
        }
    }

    /// Sleeps with SQLite's own function, in milliseconds.
    pub fn sleep_ms(self, ms: i32) {
        // SAFETY: takes a number.
        unsafe {
            (self.0.sleep)(ms);
        }
    }

    /// The VFS of that name, or the default one.
    pub fn find_vfs(self, name: Option<&CStr>) -> Option<std::ptr::NonNull<ffi::Vfs>> {
        let name = name.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: null or a terminated string.
        std::ptr::NonNull::new(unsafe { (self.0.vfs_find)(name) })
    }
}

/// A copy of `text` in the memory of a SQLite library of any version, which frees it; null if that
/// fails. It reports to a library that is too old for [`Api`] that it is too old.
///
/// # Safety
/// `table` is null or the `sqlite3_api_routines` of a SQLite library.
pub unsafe fn string_of_any_version(table: *const c_void, text: &str) -> *mut c_char {
    type Mprintf = unsafe extern "C" fn(*const c_char, ...) -> *mut c_char;
    if table.is_null() {
        return std::ptr::null_mut();
    }
    let text = c_string(text);
    // SAFETY: this entry is among the first of every table since extensions exist, and it has this
    // type. The format is a constant with one `%s`.
    unsafe {
        let at = std::mem::offset_of!(Routines, mprintf);
        match table.cast::<u8>().add(at).cast::<Option<Mprintf>>().read() {
            Some(mprintf) => mprintf(c"%s".as_ptr(), text.as_ptr()),
            None => std::ptr::null_mut(),
        }
    }
}

/// `text` up to its first NUL, as a C string.
pub(crate) fn c_string(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(text.get(..end).unwrap_or_default()).unwrap_or_default()
}

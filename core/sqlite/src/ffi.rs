//! SQLite's C types with their memory layout.
//!
//! The layouts are those of SQLite 3.37.2 (`sqlite3.h`). SQLite only ever appends to them, so newer
//! hosts fit too. Field names follow the C ones.

#![allow(missing_docs, reason = "the names and meanings are those of sqlite3.h")]
#![allow(non_snake_case, reason = "the fields keep the names of sqlite3.h")]

use std::ffi::{c_char, c_int, c_uchar, c_void};

/// `sqlite3`, opaque.
#[repr(C)]
pub struct Db {
    _private: [u8; 0],
}

/// `sqlite3_stmt`, opaque.
#[repr(C)]
pub struct Stmt {
    _private: [u8; 0],
}

/// `sqlite3_context`, opaque.
#[repr(C)]
pub struct Context {
    _private: [u8; 0],
}

/// `sqlite3_value`, opaque.
#[repr(C)]
pub struct RawValue {
    _private: [u8; 0],
}

/// `sqlite3_mutex`, opaque.
#[repr(C)]
pub struct Mutex {
    _private: [u8; 0],
}

/// `sqlite3_backup`, opaque.
#[repr(C)]
pub struct Backup {
    _private: [u8; 0],
}

/// `sqlite3_blob`, opaque.
#[repr(C)]
pub struct Blob {
    _private: [u8; 0],
}

/// Frees its argument; `None` means static.
pub type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;
/// Callback of `sqlite3_exec`.
pub type ExecCallback =
    unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
/// `xFunc` and `xStep`.
pub type FunctionCallback = unsafe extern "C" fn(*mut Context, c_int, *mut *mut RawValue);
/// The comparison of a collation: its data, and lengths in bytes and bytes of two texts.
pub type Compare =
    unsafe extern "C" fn(*mut c_void, c_int, *const c_void, c_int, *const c_void) -> c_int;
/// The callback for a collation that is missing: its data, connection, encoding and name.
pub type CollationNeeded = unsafe extern "C" fn(*mut c_void, *mut Db, c_int, *const c_char);
/// `xFinal`.
pub type FinalCallback = unsafe extern "C" fn(*mut Context);
/// `sqlite3_syscall_ptr`.
pub type SyscallPtr = Option<unsafe extern "C" fn()>;

/// `sqlite3_file`: the head of every open file. The VFS's own fields follow.
#[repr(C)]
pub struct File {
    pub pMethods: *const IoMethods,
}

/// `sqlite3_io_methods`, version 3.
#[repr(C)]
pub struct IoMethods {
    pub iVersion: c_int,
    pub xClose: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub xRead: Option<unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int>,
    pub xWrite: Option<unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int>,
    pub xTruncate: Option<unsafe extern "C" fn(*mut File, i64) -> c_int>,
    pub xSync: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub xFileSize: Option<unsafe extern "C" fn(*mut File, *mut i64) -> c_int>,
    pub xLock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub xUnlock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub xCheckReservedLock: Option<unsafe extern "C" fn(*mut File, *mut c_int) -> c_int>,
    pub xFileControl: Option<unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int>,
    pub xSectorSize: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub xDeviceCharacteristics: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    // Version 2.
    pub xShmMap:
        Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int>,
    pub xShmLock: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int>,
    pub xShmBarrier: Option<unsafe extern "C" fn(*mut File)>,
    pub xShmUnmap: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    // Version 3.
    pub xFetch: Option<unsafe extern "C" fn(*mut File, i64, c_int, *mut *mut c_void) -> c_int>,
    pub xUnfetch: Option<unsafe extern "C" fn(*mut File, i64, *mut c_void) -> c_int>,
}

/// `sqlite3_vfs`, version 3.
#[repr(C)]
pub struct Vfs {
    pub iVersion: c_int,
    pub szOsFile: c_int,
    pub mxPathname: c_int,
    pub pNext: *mut Vfs,
    pub zName: *const c_char,
    pub pAppData: *mut c_void,
    pub xOpen: Option<
        unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    >,
    pub xDelete: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int>,
    pub xAccess: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int>,
    pub xFullPathname:
        Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int>,
    pub xDlOpen: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void>,
    pub xDlError: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    pub xDlSym: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> SyscallPtr>,
    pub xDlClose: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    pub xRandomness: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub xSleep: Option<unsafe extern "C" fn(*mut Vfs, c_int) -> c_int>,
    pub xCurrentTime: Option<unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int>,
    pub xGetLastError: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    // Version 2.
    pub xCurrentTimeInt64: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
    // Version 3.
    pub xSetSystemCall: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, SyscallPtr) -> c_int>,
    pub xGetSystemCall: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> SyscallPtr>,
    pub xNextSystemCall: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *const c_char>,
}

/// `sqlite3_vtab`: the head of every virtual table.
#[repr(C)]
pub struct Vtab {
    pub pModule: *const Module,
    pub nRef: c_int,
    pub zErrMsg: *mut c_char,
}

/// `sqlite3_vtab_cursor`: the head of every cursor.
#[repr(C)]
pub struct VtabCursor {
    pub pVtab: *mut Vtab,
}

/// `sqlite3_index_constraint`.
#[repr(C)]
pub struct IndexConstraint {
    pub iColumn: c_int,
    pub op: c_uchar,
    pub usable: c_uchar,
    pub iTermOffset: c_int,
}

/// `sqlite3_index_orderby`.
#[repr(C)]
pub struct IndexOrderBy {
    pub iColumn: c_int,
    pub desc: c_uchar,
}

/// `sqlite3_index_constraint_usage`.
#[repr(C)]
pub struct IndexConstraintUsage {
    pub argvIndex: c_int,
    pub omit: c_uchar,
}

/// `sqlite3_index_info`.
#[repr(C)]
pub struct IndexInfo {
    pub nConstraint: c_int,
    pub aConstraint: *mut IndexConstraint,
    pub nOrderBy: c_int,
    pub aOrderBy: *mut IndexOrderBy,
    pub aConstraintUsage: *mut IndexConstraintUsage,
    pub idxNum: c_int,
    pub idxStr: *mut c_char,
    pub needToFreeIdxStr: c_int,
    pub orderByConsumed: c_int,
    pub estimatedCost: f64,
    pub estimatedRows: i64,
    pub idxFlags: c_int,
    pub colUsed: u64,
}

/// The arguments of `xCreate` and `xConnect`.
pub type ConnectCallback = unsafe extern "C" fn(
    *mut Db,
    *mut c_void,
    c_int,
    *const *const c_char,
    *mut *mut Vtab,
    *mut *mut c_char,
) -> c_int;

/// `sqlite3_module`, version 2.
#[repr(C)]
pub struct Module {
    pub iVersion: c_int,
    pub xCreate: Option<ConnectCallback>,
    pub xConnect: Option<ConnectCallback>,
    pub xBestIndex: Option<unsafe extern "C" fn(*mut Vtab, *mut IndexInfo) -> c_int>,
    pub xDisconnect: Option<unsafe extern "C" fn(*mut Vtab) -> c_int>,
    pub xDestroy: Option<unsafe extern "C" fn(*mut Vtab) -> c_int>,
    pub xOpen: Option<unsafe extern "C" fn(*mut Vtab, *mut *mut VtabCursor) -> c_int>,
    pub xClose: Option<unsafe extern "C" fn(*mut VtabCursor) -> c_int>,
    pub xFilter: Option<
        unsafe extern "C" fn(
            *mut VtabCursor,
            c_int,
            *const c_char,
            c_int,
            *mut *mut RawValue,
        ) -> c_int,
    >,
    pub xNext: Option<unsafe extern "C" fn(*mut VtabCursor) -> c_int>,
    pub xEof: Option<unsafe extern "C" fn(*mut VtabCursor) -> c_int>,
    pub xColumn: Option<unsafe extern "C" fn(*mut VtabCursor, *mut Context, c_int) -> c_int>,
    pub xRowid: Option<unsafe extern "C" fn(*mut VtabCursor, *mut i64) -> c_int>,
    pub xUpdate:
        Option<unsafe extern "C" fn(*mut Vtab, c_int, *mut *mut RawValue, *mut i64) -> c_int>,
    pub xBegin: Option<unsafe extern "C" fn(*mut Vtab) -> c_int>,
    pub xSync: Option<unsafe extern "C" fn(*mut Vtab) -> c_int>,
    pub xCommit: Option<unsafe extern "C" fn(*mut Vtab) -> c_int>,
    pub xRollback: Option<unsafe extern "C" fn(*mut Vtab) -> c_int>,
    pub xFindFunction: Option<unsafe extern "C" fn()>,
    pub xRename: Option<unsafe extern "C" fn(*mut Vtab, *const c_char) -> c_int>,
    pub xSavepoint: Option<unsafe extern "C" fn(*mut Vtab, c_int) -> c_int>,
    pub xRelease: Option<unsafe extern "C" fn(*mut Vtab, c_int) -> c_int>,
    pub xRollbackTo: Option<unsafe extern "C" fn(*mut Vtab, c_int) -> c_int>,
}

pub const OPEN_READONLY: c_int = 0x0000_0001;
pub const OPEN_READWRITE: c_int = 0x0000_0002;
pub const OPEN_CREATE: c_int = 0x0000_0004;
pub const OPEN_DELETEONCLOSE: c_int = 0x0000_0008;
pub const OPEN_EXCLUSIVE: c_int = 0x0000_0010;
pub const OPEN_URI: c_int = 0x0000_0040;
pub const OPEN_MEMORY: c_int = 0x0000_0080;
pub const OPEN_MAIN_DB: c_int = 0x0000_0100;
pub const OPEN_TEMP_DB: c_int = 0x0000_0200;
pub const OPEN_TRANSIENT_DB: c_int = 0x0000_0400;
pub const OPEN_MAIN_JOURNAL: c_int = 0x0000_0800;
pub const OPEN_TEMP_JOURNAL: c_int = 0x0000_1000;
pub const OPEN_SUBJOURNAL: c_int = 0x0000_2000;
pub const OPEN_SUPER_JOURNAL: c_int = 0x0000_4000;
pub const OPEN_NOMUTEX: c_int = 0x0000_8000;
pub const OPEN_FULLMUTEX: c_int = 0x0001_0000;
pub const OPEN_PRIVATECACHE: c_int = 0x0004_0000;
pub const OPEN_WAL: c_int = 0x0008_0000;

pub const IOCAP_UNDELETABLE_WHEN_OPEN: c_int = 0x0000_0800;
pub const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x0000_1000;
pub const IOCAP_IMMUTABLE: c_int = 0x0000_2000;

pub const LOCK_NONE: c_int = 0;
pub const LOCK_SHARED: c_int = 1;
pub const LOCK_RESERVED: c_int = 2;
pub const LOCK_PENDING: c_int = 3;
pub const LOCK_EXCLUSIVE: c_int = 4;

pub const DBSTATUS_CACHE_USED: c_int = 1;
pub const DBSTATUS_DEFERRED_FKS: c_int = 10;
pub const DBSTATUS_CACHE_USED_SHARED: c_int = 11;

pub const SYNC_NORMAL: c_int = 0x02;
pub const SYNC_FULL: c_int = 0x03;
pub const SYNC_DATAONLY: c_int = 0x10;

pub const ACCESS_EXISTS: c_int = 0;
pub const ACCESS_READWRITE: c_int = 1;

pub const SHM_UNLOCK: c_int = 1;
pub const SHM_LOCK: c_int = 2;
pub const SHM_SHARED: c_int = 4;
pub const SHM_EXCLUSIVE: c_int = 8;

pub const FCNTL_LOCKSTATE: c_int = 1;
pub const FCNTL_LAST_ERRNO: c_int = 4;
pub const FCNTL_SIZE_HINT: c_int = 5;
pub const FCNTL_CHUNK_SIZE: c_int = 6;
pub const FCNTL_FILE_POINTER: c_int = 7;
pub const FCNTL_SYNC_OMITTED: c_int = 8;
pub const FCNTL_PERSIST_WAL: c_int = 10;
pub const FCNTL_OVERWRITE: c_int = 11;
pub const FCNTL_VFSNAME: c_int = 12;
pub const FCNTL_POWERSAFE_OVERWRITE: c_int = 13;
pub const FCNTL_PRAGMA: c_int = 14;
pub const FCNTL_BUSYHANDLER: c_int = 15;
pub const FCNTL_TEMPFILENAME: c_int = 16;
pub const FCNTL_MMAP_SIZE: c_int = 18;
pub const FCNTL_HAS_MOVED: c_int = 20;
pub const FCNTL_SYNC: c_int = 21;
pub const FCNTL_COMMIT_PHASETWO: c_int = 22;
pub const FCNTL_VFS_POINTER: c_int = 27;
pub const FCNTL_JOURNAL_POINTER: c_int = 28;
pub const FCNTL_PDB: c_int = 30;
pub const FCNTL_BEGIN_ATOMIC_WRITE: c_int = 31;
pub const FCNTL_COMMIT_ATOMIC_WRITE: c_int = 32;
pub const FCNTL_ROLLBACK_ATOMIC_WRITE: c_int = 33;
pub const FCNTL_LOCK_TIMEOUT: c_int = 34;
pub const FCNTL_DATA_VERSION: c_int = 35;
pub const FCNTL_SIZE_LIMIT: c_int = 36;
pub const FCNTL_CKPT_DONE: c_int = 37;
pub const FCNTL_RESERVE_BYTES: c_int = 38;
pub const FCNTL_CKPT_START: c_int = 39;
pub const FCNTL_EXTERNAL_READER: c_int = 40;
pub const FCNTL_CKSM_FILE: c_int = 41;
pub const FCNTL_RESET_CACHE: c_int = 42;

pub const DBCONFIG_ENABLE_TRIGGER: c_int = 1003;
pub const DBCONFIG_ENABLE_LOAD_EXTENSION: c_int = 1005;
pub const DBCONFIG_NO_CKPT_ON_CLOSE: c_int = 1006;
pub const DBCONFIG_RESET_DATABASE: c_int = 1009;
pub const DBCONFIG_DEFENSIVE: c_int = 1010;
pub const DBCONFIG_WRITABLE_SCHEMA: c_int = 1011;
pub const DBCONFIG_DQS_DML: c_int = 1013;
pub const DBCONFIG_DQS_DDL: c_int = 1014;

pub const STMTSTATUS_REPREPARE: c_int = 5;

pub const INTEGER: c_int = 1;
pub const FLOAT: c_int = 2;
pub const TEXT: c_int = 3;
pub const BLOB: c_int = 4;
pub const NULL: c_int = 5;

pub const UTF8: c_int = 1;
pub const DETERMINISTIC: c_int = 0x0000_0800;
pub const DIRECTONLY: c_int = 0x0008_0000;
pub const INNOCUOUS: c_int = 0x0020_0000;

pub const VTAB_CONSTRAINT_SUPPORT: c_int = 1;
pub const VTAB_INNOCUOUS: c_int = 2;
pub const VTAB_DIRECTONLY: c_int = 3;

pub const CHECKPOINT_PASSIVE: c_int = 0;
pub const CHECKPOINT_FULL: c_int = 1;
pub const CHECKPOINT_RESTART: c_int = 2;
pub const CHECKPOINT_TRUNCATE: c_int = 3;

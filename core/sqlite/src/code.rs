//! SQLite's result codes.

use densite_disk::Op;
use std::fmt;

/// A result code of SQLite, plain or extended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub i32);

macro_rules! codes {
    ($($name:ident = $value:expr, $what:literal;)*) => {
        impl Code {
            $(#[doc = concat!("`SQLITE_", stringify!($name), "`: ", $what, ".")]
            pub const $name: Code = Code($value);)*

            /// What the primary code means, in a few words.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => $what,)*
                    _ if self.0 > 0xff => self.primary().meaning(),
                    _ => "unknown result code",
                }
            }
        }
    };
}

codes! {
    OK = 0, "success";
    ERROR = 1, "error";
    INTERNAL = 2, "internal error";
    PERM = 3, "access permission denied";
    ABORT = 4, "aborted";
    BUSY = 5, "the database is locked";
    LOCKED = 6, "a table is locked";
    NOMEM = 7, "out of memory";
    READONLY = 8, "the database is read-only";
    INTERRUPT = 9, "interrupted";
    IOERR = 10, "disk I/O error";
    CORRUPT = 11, "the database is damaged";
    NOTFOUND = 12, "unknown operation";
    FULL = 13, "the database or disk is full";
    CANTOPEN = 14, "unable to open the file";
    PROTOCOL = 15, "locking protocol error";
    EMPTY = 16, "internal use";
    SCHEMA = 17, "the schema changed";
    TOOBIG = 18, "too big";
    CONSTRAINT = 19, "constraint violated";
    MISMATCH = 20, "data type mismatch";
    MISUSE = 21, "interface misused";
    NOLFS = 22, "large files are not supported";
    AUTH = 23, "not authorised";
    RANGE = 25, "index out of range";
    NOTADB = 26, "not a database";
    WARNING = 28, "warning";
    ROW = 100, "a row is ready";
    DONE = 101, "finished";
    IOERR_READ = 10 | 1 << 8, "reading failed";
    IOERR_SHORT_READ = 10 | 2 << 8, "the file ends before the bytes asked for";
    IOERR_WRITE = 10 | 3 << 8, "writing failed";
    IOERR_FSYNC = 10 | 4 << 8, "making writes durable failed";
    IOERR_DIR_FSYNC = 10 | 5 << 8, "making a name durable failed";
    IOERR_TRUNCATE = 10 | 6 << 8, "changing the length failed";
    IOERR_FSTAT = 10 | 7 << 8, "asking for the length failed";
    IOERR_UNLOCK = 10 | 8 << 8, "unlocking failed";
    IOERR_DELETE = 10 | 10 << 8, "deleting failed";
    IOERR_SHMSIZE = 10 | 19 << 8, "growing the shared memory failed";
    IOERR_NOMEM = 10 | 12 << 8, "out of memory";
    IOERR_ACCESS = 10 | 13 << 8, "asking for a file's existence failed";
    IOERR_CHECKRESERVEDLOCK = 10 | 14 << 8, "asking for a lock failed";
    IOERR_LOCK = 10 | 15 << 8, "locking failed";
    IOERR_CLOSE = 10 | 16 << 8, "closing failed";
    IOERR_SHMLOCK = 10 | 20 << 8, "locking shared memory failed";
    IOERR_SHMMAP = 10 | 21 << 8, "mapping shared memory failed";
    LOCKED_SHAREDCACHE = 6 | 1 << 8, "another connection of the shared cache locks the table";
    IOERR_DELETE_NOENT = 10 | 23 << 8, "there is no such file to delete";
    OK_LOAD_PERMANENTLY = 1 << 8, "loaded for good";
    READONLY_DBMOVED = 8 | 4 << 8, "the file was moved or replaced";
    READONLY_CANTINIT = 8 | 5 << 8, "shared memory cannot be set up read-only";
    CANTOPEN_ISDIR = 14 | 2 << 8, "it is a directory";
    BUSY_RECOVERY = 5 | 1 << 8, "another process recovers the log";
    BUSY_SNAPSHOT = 5 | 2 << 8, "the snapshot is too old to write";
}

/// The detail of Densite's own extended codes. SQLite's own details are small numbers.
const EXPLAINED: i32 = 0xde << 8;

/// SQLite passes the extended code of a function or of a virtual table on to its caller
/// (`sqlite3_extended_errcode`). So the caller knows without reading the message whether it is
/// Densite's own.
impl Code {
    /// The code for an error whose message is Densite's own and says what to do.
    pub const fn explained(self) -> Code {
        Code((self.0 & 0xff) | EXPLAINED)
    }

    /// Whether the message of an error with this code is Densite's own and says what to do.
    pub const fn is_explained(self) -> bool {
        self.0 & !0xff == EXPLAINED
    }
}

impl Code {
    /// The low byte: the kind without its detail.
    pub fn primary(self) -> Code {
        Code(self.0 & 0xff)
    }

    /// `Ok` for `SQLITE_OK`; any other code as the error.
    pub fn ok(self) -> Result<(), Code> {
        if self == Code::OK { Ok(()) } else { Err(self) }
    }

    /// The code of a result without a value.
    pub fn of(result: Result<(), Code>) -> Code {
        result.err().unwrap_or(Code::OK)
    }
}

/// The code that SQLite's own VFSes return if this call fails.
impl From<Op> for Code {
    fn from(op: Op) -> Code {
        match op {
            Op::Open => Code::CANTOPEN,
            Op::Read => Code::IOERR_READ,
            Op::Write => Code::IOERR_WRITE,
            Op::Truncate => Code::IOERR_TRUNCATE,
            Op::Sync => Code::IOERR_FSYNC,
            Op::Len => Code::IOERR_FSTAT,
            Op::Lock => Code::IOERR_LOCK,
            Op::Remove | Op::Rename => Code::IOERR_DELETE,
            Op::List => Code::IOERR_ACCESS,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.meaning(), self.0)
    }
}

impl std::error::Error for Code {}

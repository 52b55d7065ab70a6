//! The mapping from the store's errors to SQLite's codes.

use densite_sqlite::Code;
use densite_store::Error;

/// The answer to a call of SQLite that returns nothing but success or a code.
pub(crate) type Done = Result<(), Code>;

/// The code that SQLite gets for an error of the store.
pub(crate) fn code_of(error: &Error) -> Code {
    match error {
        Error::Full(_) => Code::FULL,
        Error::Io(disk) => {
            // The disk below is the host's VFS, so its code is SQLite's.
            let host = disk.code.map(Code).filter(|code| {
                matches!(
                    code.primary(),
                    Code::IOERR | Code::READONLY | Code::PERM | Code::NOMEM | Code::FULL
                )
            });
            match host {
                // SQLite takes this code for the end of the file.
                Some(code) if code != Code::IOERR_SHORT_READ => code,
                _ => disk.op.into(),
            }
        }
        Error::Poisoned | Error::Overwritten => Code::IOERR,
        Error::Overtaken => Code::PROTOCOL,
        Error::Corrupt(_) => Code::CORRUPT,
        Error::NewerFormat { .. } => Code::CANTOPEN,
        Error::NotDensite => Code::NOTADB,
        Error::ReadOnly => Code::READONLY,
        Error::Setting(_) => Code::ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_disk as disk;
    use disk::Op;

    fn io(op: Op, code: Option<i32>) -> Code {
        code_of(&Error::Io(disk::Error {
            kind: disk::ErrorKind::Io,
            op,
            code,
        }))
    }

    #[test]
    fn a_hosts_code_is_passed_on_unless_it_means_something_else_to_sqlite() {
        assert_eq!(io(Op::Read, Some(Code::IOERR_READ.0)), Code::IOERR_READ);
        assert_eq!(
            io(Op::Read, Some(Code::IOERR_SHORT_READ.0)),
            Code::IOERR_READ
        );
        assert_eq!(io(Op::Len, Some(Code::OK.0)), Code::IOERR_FSTAT);
        assert_eq!(io(Op::Write, Some(Code::BUSY.0)), Code::IOERR_WRITE);
        assert_eq!(io(Op::Sync, None), Code::IOERR_FSYNC);
        assert_eq!(code_of(&Error::Poisoned), Code::IOERR);
    }
}

//! Reads the operands of instructions.

use super::input::Input;
use super::text;
use super::{PickleError, TextHash};
use std::io::BufRead;

/// The number after the instruction `code`.
pub(super) fn number<R: BufRead>(input: &mut Input<R>, code: u8) -> Result<i64, PickleError> {
    let n = match code {
        b'J' => Some(i64::from(i32::from_le_bytes(input.bytes()?))),
        b'K' => {
            let [byte] = input.bytes()?;
            Some(i64::from(byte))
        }
        b'M' => Some(i64::from(u16::from_le_bytes(input.bytes()?))),
        0x8a => {
            let [n] = input.bytes()?;
            text::long(input.string(u64::from(n))?)
        }
        0x8b => {
            let n = u32::from_le_bytes(input.bytes()?);
            text::long(input.string(u64::from(n))?)
        }
        _ => text::number(input.line()?),
    };
    n.ok_or_else(|| input.error("not a number, or one of more than 64 bits"))
}

/// The text after the instruction `code`.
pub(super) fn text<R: BufRead>(input: &mut Input<R>, code: u8) -> Result<TextHash, PickleError> {
    let hash = match code {
        0x8c => {
            let [n] = input.bytes()?;
            TextHash::of(input.string(u64::from(n))?)
        }
        b'X' => {
            let n = u32::from_le_bytes(input.bytes()?);
            TextHash::of(input.string(u64::from(n))?)
        }
        0x8d => {
            let n = u64::from_le_bytes(input.bytes()?);
            TextHash::of(input.string(n)?)
        }
        _ => match text::unescape(input.line()?) {
            Some(text) => TextHash::of(text.as_bytes()),
            None => return Err(input.error("a text with a broken escape")),
        },
    };
    Ok(hash)
}

/// The memo index after the instruction `code`; `None` if it is not a number.
pub(super) fn memo_index<R: BufRead>(
    input: &mut Input<R>,
    code: u8,
) -> Result<Option<u64>, PickleError> {
    Ok(match code {
        b'q' | b'h' => {
            let [at] = input.bytes()?;
            Some(u64::from(at))
        }
        b'r' | b'j' => Some(u64::from(u32::from_le_bytes(input.bytes()?))),
        _ => text::number(input.line()?).and_then(|at| u64::try_from(at).ok()),
    })
}

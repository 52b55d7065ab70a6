//! The stored form of a template.
//!
//! One byte with the number of pieces, 1 to 33, then for each piece a byte that tells its kind and
//! what this kind needs:
//!
//! | kind | piece | behind it |
//! |---|---|---|
//! | 0 | literal | length (1), the bytes |
//! | 1 | digits | how many (1) |
//! | 2, 3 | hex: lower case, upper case | how many (1) |
//! | 4 | date | separator (1): `-` or `/` |
//! | 5 | date without separators | |
//! | 6 | date time | separator of the date (1), byte between date and time (1): a space or `T`, fraction |
//! | 7 | time | fraction |
//! | 8 | choice | how many bytes (1), the bytes, ascending |
//!
//! A fraction is the number of its digits (1), 0 to 9, and, if not 0, the byte before them (1): `.`
//! or `,`.
//!
//! Valid if and only if each of these is within its range, the text is at most 255 bytes long,
//! there are 1 to 16 fields and no two literals stand side by side. A template has one stored form.

use super::calendar::{COMPACT_LEN, DATE_LEN, TIME_LEN};
use super::{FIELDS_MAX, FRACTION_MAX, Fraction, Kind, Template};

/// Every field with a literal before it, and one behind the last.
const PIECES_MAX: usize = 2 * FIELDS_MAX + 1;

const LITERAL: u8 = 0;
const DIGITS: u8 = 1;
const HEX_LOWER: u8 = 2;
const HEX_UPPER: u8 = 3;
const DATE: u8 = 4;
const COMPACT_DATE: u8 = 5;
const DATE_TIME: u8 = 6;
const TIME: u8 = 7;
const CHOICE: u8 = 8;

pub(super) fn put(template: &Template, out: &mut Vec<u8>) {
    out.push(template.pieces.len() as u8);
    for piece in &template.pieces {
        let at = usize::from(piece.at);
        match piece.kind {
            Kind::Literal => {
                out.extend([LITERAL, piece.len]);
                let text = template.literals.get(at..at + usize::from(piece.len));
                out.extend_from_slice(text.unwrap_or_default());
            }
            Kind::Digits => out.extend([DIGITS, piece.len]),
            Kind::Hex { upper: false } => out.extend([HEX_LOWER, piece.len]),
            Kind::Hex { upper: true } => out.extend([HEX_UPPER, piece.len]),
            Kind::Date { separator } => out.extend([DATE, separator]),
            Kind::CompactDate => out.push(COMPACT_DATE),
            Kind::DateTime {
                separator,
                between,
                fraction,
            } => {
                out.extend([DATE_TIME, separator, between]);
                put_fraction(fraction, out);
            }
            Kind::Time { fraction } => {
                out.push(TIME);
                put_fraction(fraction, out);
            }
            Kind::Choice(list) => {
                let list = template.choices.get(usize::from(list));
                let bytes = list.map_or(&[][..], |choice| &choice.bytes);
                out.extend([CHOICE, bytes.len() as u8]);
                out.extend_from_slice(bytes);
            }
        }
    }
}

fn put_fraction(fraction: Fraction, out: &mut Vec<u8>) {
    out.push(fraction.digits);
    if fraction.digits > 0 {
        out.push(fraction.mark);
    }
}

pub(super) fn take(bytes: &[u8]) -> Option<(Template, usize)> {
    let mut rest = Rest(bytes);
    let count = usize::from(rest.byte()?);
    if count > PIECES_MAX {
        return None;
    }
    let mut parts: Vec<(Kind, usize, &[u8])> = Vec::with_capacity(count);
    for _ in 0..count {
        parts.push(match rest.byte()? {
            LITERAL => {
                let text = rest.counted()?;
                (Kind::Literal, text.len(), text)
            }
            DIGITS => (Kind::Digits, usize::from(rest.byte()?), &[]),
            tag @ (HEX_LOWER | HEX_UPPER) => {
                let upper = tag == HEX_UPPER;
                (Kind::Hex { upper }, usize::from(rest.byte()?), &[])
            }
            DATE => {
                let separator = rest.one_of(b"-/")?;
                (Kind::Date { separator }, DATE_LEN, &[])
            }
            COMPACT_DATE => (Kind::CompactDate, COMPACT_LEN, &[]),
            DATE_TIME => {
                let separator = rest.one_of(b"-/")?;
                let between = rest.one_of(b" T")?;
                let fraction = rest.fraction()?;
                let kind = Kind::DateTime {
                    separator,
                    between,
                    fraction,
                };
                (kind, DATE_LEN + 1 + TIME_LEN + fraction.len(), &[])
            }
            TIME => {
                let fraction = rest.fraction()?;
                (Kind::Time { fraction }, TIME_LEN + fraction.len(), &[])
            }
            CHOICE => (Kind::Choice(0), 1, rest.counted()?),
            _ => return None,
        });
    }
    Some((Template::new(&parts)?, bytes.len() - rest.0.len()))
}

/// What was not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn one_of(&mut self, allowed: &[u8]) -> Option<u8> {
        self.byte().filter(|byte| allowed.contains(byte))
    }

    /// A length byte and as many bytes.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let len = usize::from(self.byte()?);
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text)
    }

    fn fraction(&mut self) -> Option<Fraction> {
        match self.byte()? {
            0 => Some(Fraction::NONE),
            digits if digits <= FRACTION_MAX => Some(Fraction {
                digits,
                mark: self.one_of(b".,")?,
            }),
            _ => None,
        }
    }
}

//! The stored form of a template. docs/FORMAT.md (Model) has its bytes.
//!
//! It is valid if and only if each value is within its range, the text has at most 255 bytes, there
//! are 1 to 16 fields, and no two literals are adjacent. A template has one stored form.

use super::calendar::{COMPACT_LEN, DATE_LEN, TIME_LEN};
use super::{FIELDS_MAX, FRACTION_MAX, Fraction, Kind, Template};

/// A literal before each field, and one behind the last.
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

/// The bytes that are not read yet.
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

    /// A length byte, and that many bytes.
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

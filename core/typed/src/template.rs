//! Templates: formatted text (`1996-03-13`, `Customer#000000001`, a UUID) as numbers.
//!
//! A template is a sequence of pieces of fixed length, and each piece except a literal becomes one
//! integer. docs/FORMAT.md (Model) lists the pieces. Invariant: a value matches if and only if
//! [`Template::render`] makes exactly its bytes from the integers. Each piece is a one-to-one
//! relation between texts and integers. So no value has two forms, and `parse` accepts everything
//! that is rendered.

mod calendar;
mod describe;
mod digits;
mod format;
mod learn;

use calendar::{COMPACT_LEN, DATE_LEN, DAY_MIN, DAY_SECONDS, TIME_LEN};

/// The most fields of a template.
pub const FIELDS_MAX: usize = 16;
/// The longest text of a template, in bytes.
pub const TEXT_MAX: usize = 255;
/// The longest text for which [`Template::number_last`] is used.
pub(crate) const NUMBERED_MAX: usize = 32;
/// The most bytes of a choice.
const CHOICES_MAX: usize = 64;
/// With fewer hexadecimal digits, a text can be a number that counts.
const RANDOM_MIN: usize = 16;
/// The most digits of a fraction of a second.
const FRACTION_MAX: u8 = 9;

/// The form of all values of a column. See the module's description.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pieces: Vec<Piece>,
    /// As long as the text: the literals at their places, and zeros elsewhere.
    literals: Vec<u8>,
    choices: Vec<Choice>,
    /// The pieces except literals.
    fields: Vec<Piece>,
    /// The separator, if the template is only a date. This template is the most frequent and has a
    /// fast path.
    date_alone: Option<u8>,
    /// The number at the end, if the template is only a literal and this number, and the text is
    /// short. Names with numbers have a fast path, too.
    number_last: Option<NumberLast>,
    /// Windows that cover all literals. A text of fewer than eight bytes has one window.
    windows: Vec<Window>,
}

/// A template of a literal and a number. See [`Template::number_last`].
#[derive(Debug, Clone, Copy, PartialEq)]
struct NumberLast {
    /// The literal, with zeros behind it.
    text: [u8; NUMBERED_MAX],
    at: usize,
    digits: usize,
}

/// A part of the text.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    at: u8,
    len: u8,
    kind: Kind,
}

/// Eight bytes of the text. All literals in them are compared or written at once.
#[derive(Debug, Clone, PartialEq)]
struct Window {
    at: u8,
    /// All bits set in each byte of a literal.
    mask: u64,
    /// The bytes of the literals; zero elsewhere.
    bytes: u64,
}

/// The kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Literal,
    Digits,
    Hex {
        upper: bool,
    },
    /// The separator is a dash or a slash.
    Date {
        separator: u8,
    },
    CompactDate,
    DateTime {
        separator: u8,
        between: u8,
        fraction: Fraction,
    },
    Time {
        fraction: Fraction,
    },
    /// Index into `choices`.
    Choice(u8),
}

/// The fraction of a second. Without digits, there is no mark.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fraction {
    digits: u8,
    mark: u8,
}

/// The bytes that are allowed at one place of the text.
#[derive(Debug, Clone, PartialEq)]
struct Choice {
    bytes: Vec<u8>,
    /// For every byte, its index plus one; zero if it is not allowed.
    places: Vec<u8>,
}

impl Choice {
    /// `bytes` must ascend.
    fn new(bytes: Vec<u8>) -> Choice {
        let mut places = vec![0; 256];
        for (place, &byte) in (1..).zip(&bytes) {
            if let Some(slot) = places.get_mut(usize::from(byte)) {
                *slot = place;
            }
        }
        Choice { bytes, places }
    }
}

impl Fraction {
    const NONE: Fraction = Fraction { digits: 0, mark: 0 };

    /// Length of the text, including the mark.
    fn len(self) -> usize {
        match self.digits {
            0 => 0,
            digits => usize::from(digits) + 1,
        }
    }

    /// Converts seconds and the text of the fraction to units.
    #[inline(always)]
    fn read(self, seconds: i64, text: &[u8]) -> Option<i64> {
        if self.digits == 0 {
            return text.is_empty().then_some(seconds);
        }
        let (mark, rest) = text.split_first()?;
        if *mark != self.mark {
            return None;
        }
        // A long fraction of a distant year overflows. Before 1970, the product is computed from
        // the next second, because it fits whenever the sum does.
        let power = digits::power(rest.len());
        let fraction = digits::read_decimal(rest)?;
        if seconds < 0 {
            return (seconds + 1)
                .checked_mul(power)?
                .checked_sub(power - fraction);
        }
        seconds.checked_mul(power)?.checked_add(fraction)
    }

    /// Writes the fraction and returns the whole seconds since `origin`. Times before `origin`
    /// result in a number far beyond the year 9999.
    #[inline(always)]
    fn write(self, units: i64, origin: i64, text: &mut [u8]) -> Option<u64> {
        // With up to seven digits, all units of ten thousand years fit into 64 bits. So one
        // unsigned division is enough, and frequent numbers of digits divide by a constant.
        let from_origin = |power: i64| units.wrapping_sub(origin * power) as u64;
        let (seconds, rest) = match self.digits {
            0 => return Some(from_origin(1)),
            3 => split(from_origin(1_000), 1_000),
            6 => split(from_origin(1_000_000), 1_000_000),
            digits @ ..=7 => {
                let power = digits::power(usize::from(digits));
                split(from_origin(power), power as u64)
            }
            digits => {
                let power = digits::power(usize::from(digits));
                let seconds = units.div_euclid(power).wrapping_sub(origin) as u64;
                (seconds, units.rem_euclid(power) as u64)
            }
        };
        let (mark, behind) = text.split_first_mut()?;
        *mark = self.mark;
        digits::write_decimal(rest as i64, behind).then_some(seconds)
    }
}

/// Quotient and remainder.
#[inline(always)]
fn split(value: u64, by: u64) -> (u64, u64) {
    (value / by, value % by)
}

impl Template {
    /// Learns from samples: the template that at least 98 % of them match. `None` if there is no
    /// such template, or if it has no field.
    pub fn learn(samples: &[&[u8]]) -> Option<Template> {
        learn::learn(samples)
    }

    /// The template of these parts, or `None` if they break a rule of docs/FORMAT.md. A literal
    /// comes with its text, a choice with its list.
    fn new(parts: &[(Kind, usize, &[u8])]) -> Option<Template> {
        let mut template = Template {
            pieces: Vec::with_capacity(parts.len()),
            literals: Vec::new(),
            choices: Vec::new(),
            fields: Vec::new(),
            windows: Vec::new(),
            date_alone: None,
            number_last: None,
        };
        let mut literal_before = false;
        for &(mut kind, len, bytes) in parts {
            let at = template.literals.len();
            let literal = kind == Kind::Literal;
            // Adjacent literals must be one, because a template has only one stored form.
            if !kind.fits(len) || at + len > TEXT_MAX || literal && literal_before {
                return None;
            }
            literal_before = literal;
            if literal {
                template.literals.extend_from_slice(bytes);
            }
            template.literals.resize(at + len, 0);
            if let Kind::Choice(list) = &mut kind {
                if !(2..=CHOICES_MAX).contains(&bytes.len()) || !bytes.is_sorted_by(|a, b| a < b) {
                    return None;
                }
                *list = u8::try_from(template.choices.len()).ok()?;
                template.choices.push(Choice::new(bytes.to_vec()));
            }
            let piece = Piece {
                at: u8::try_from(at).ok()?,
                len: u8::try_from(len).ok()?,
                kind,
            };
            template.pieces.push(piece);
            if !literal {
                template.fields.push(piece);
            }
        }
        template.find_windows()?;
        if let [(Kind::Date { separator }, ..)] = *parts {
            template.date_alone = Some(separator);
        }
        template.number_last = template.find_number_last();
        (1..=FIELDS_MAX)
            .contains(&template.fields.len())
            .then_some(template)
    }

    fn find_number_last(&self) -> Option<NumberLast> {
        let [piece] = *self.fields.as_slice() else {
            return None;
        };
        let (at, digits) = (usize::from(piece.at), usize::from(piece.len));
        let serves = piece.kind == Kind::Digits
            && at + digits == self.literals.len()
            && digits <= digits::SIXTEEN
            && at + digits::SIXTEEN <= NUMBERED_MAX;
        let mut text = [0; NUMBERED_MAX];
        text.get_mut(..at)?
            .copy_from_slice(self.literals.get(..at)?);
        serves.then_some(NumberLast { text, at, digits })
    }

    /// Covers the literals with windows.
    fn find_windows(&mut self) -> Option<()> {
        let mut fixed = vec![0u8; self.literals.len()];
        for piece in &self.pieces {
            if piece.kind == Kind::Literal {
                let at = usize::from(piece.at);
                fixed.get_mut(at..at + usize::from(piece.len))?.fill(0xff);
            }
        }
        let mut next = 0;
        while let Some(skipped) = fixed.get(next..)?.iter().position(|byte| *byte != 0) {
            let at = (next + skipped).min(fixed.len().saturating_sub(8));
            let end = fixed.len().min(at + 8);
            let window = |bytes: &[u8]| {
                let mut eight = [0; 8];
                // Short texts are loaded to the high end of the register.
                eight
                    .get_mut(8 - (end - at)..)?
                    .copy_from_slice(bytes.get(at..end)?);
                Some(u64::from_le_bytes(eight))
            };
            self.windows.push(Window {
                at: u8::try_from(at).ok()?,
                mask: window(&fixed)?,
                bytes: window(&self.literals)?,
            });
            next = end;
        }
        Some(())
    }

    /// The number of fields, 1 to [`FIELDS_MAX`].
    pub fn fields(&self) -> usize {
        self.fields.len()
    }

    /// Whether most of the text is hexadecimal digits: those of a UUID or a hash are random.
    pub fn is_hexadecimal(&self) -> bool {
        let hex = self
            .fields
            .iter()
            .filter(|f| matches!(f.kind, Kind::Hex { .. }));
        let digits: usize = hex.map(|field| usize::from(field.len)).sum();
        digits >= RANDOM_MIN && digits * 4 >= self.text_len() * 3
    }

    /// Length of the text in bytes, 1 to [`TEXT_MAX`].
    pub fn text_len(&self) -> usize {
        self.literals.len()
    }

    /// Fills `fields[..self.fields()]` and returns true if [`Template::render`] makes exactly the
    /// bytes of `value` from them.
    #[inline]
    pub fn parse(&self, value: &[u8], fields: &mut [i64; FIELDS_MAX]) -> bool {
        if let Some(separator) = self.date_alone {
            let Ok(text) = value.try_into() else {
                return false;
            };
            let days = calendar::read_date(text, separator);
            fields[0] = days.unwrap_or(0);
            return days.is_some();
        }
        self.parse_pieces(value, fields).is_some()
    }

    fn parse_pieces(&self, value: &[u8], fields: &mut [i64; FIELDS_MAX]) -> Option<()> {
        if value.len() != self.literals.len() {
            return None;
        }
        for window in &self.windows {
            let found = if value.len() < 8 {
                digits::load(value)?
            } else {
                u64::from_le_bytes(*value.get(usize::from(window.at)..)?.first_chunk()?)
            };
            if found & window.mask != window.bytes {
                return None;
            }
        }
        for (piece, slot) in self.fields.iter().zip(fields) {
            let at = usize::from(piece.at);
            let text = value.get(at..at + usize::from(piece.len))?;
            *slot = match piece.kind {
                Kind::Literal => return None,
                Kind::Digits => digits::read_decimal(text)?,
                Kind::Hex { upper } => digits::read_hex(text, upper)?,
                Kind::Date { separator } => calendar::read_date(text.first_chunk()?, separator)?,
                Kind::CompactDate => calendar::read_compact(text.first_chunk()?)?,
                Kind::DateTime {
                    separator,
                    between,
                    fraction,
                } => {
                    let (date, rest) = text.split_first_chunk::<DATE_LEN>()?;
                    let (byte, rest) = rest.split_first()?;
                    let (time, rest) = rest.split_first_chunk::<TIME_LEN>()?;
                    if *byte != between {
                        return None;
                    }
                    let days = calendar::read_date(date, separator)?;
                    let seconds = days * DAY_SECONDS + calendar::read_time(time)?;
                    fraction.read(seconds, rest)?
                }
                Kind::Time { fraction } => {
                    let (time, rest) = text.split_first_chunk::<TIME_LEN>()?;
                    fraction.read(calendar::read_time(time)?, rest)?
                }
                Kind::Choice(list) => {
                    let places = &self.choices.get(usize::from(list))?.places;
                    let place = *places.get(usize::from(*text.first()?))?;
                    i64::from(place.checked_sub(1)?)
                }
            };
        }
        Some(())
    }

    /// Writes [`Template::text_len`] bytes to the beginning of `out`, and keeps the bytes behind
    /// them. Returns false if `out` is too short, or fields are missing or out of range; the text
    /// in `out` is then undefined.
    #[inline]
    pub fn render(&self, fields: &[i64], out: &mut [u8]) -> bool {
        if let Some(separator) = self.date_alone {
            return match (fields, out.first_chunk_mut()) {
                ([days, ..], Some(text)) => calendar::write_date(*days, text, separator),
                _ => false,
            };
        }
        self.render_pieces(fields, out).is_some()
    }

    /// A function that writes the text, if the template is only a date. It returns false in the
    /// same cases as [`Template::render`].
    #[inline]
    pub(crate) fn date_alone(&self) -> Option<impl Fn(i64, &mut [u8; DATE_LEN]) -> bool + use<>> {
        let separator = self.date_alone?;
        Some(move |days, text: &mut _| calendar::write_date(days, text, separator))
    }

    /// A function that writes the text, if the template is a literal and a number and is short. It
    /// returns false in the same cases as [`Template::render`]. Bytes behind the text are
    /// undefined.
    #[inline]
    pub(crate) fn number_last(
        &self,
    ) -> Option<impl Fn(i64, &mut [u8; NUMBERED_MAX]) -> bool + use<>> {
        let NumberLast { text, at, digits } = self.number_last?;
        Some(move |number: i64, out: &mut [u8; NUMBERED_MAX]| {
            *out = text;
            let to = out.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
            to.is_some_and(|to| digits::write_left(number, digits, to))
        })
    }

    fn render_pieces(&self, fields: &[i64], out: &mut [u8]) -> Option<()> {
        let out = out.get_mut(..self.literals.len())?;
        if fields.len() < self.fields.len() {
            return None;
        }
        // Windows are written before the fields, because they can overlap fields.
        for window in &self.windows {
            if out.len() < 8 {
                digits::store(window.bytes, out);
            } else {
                *out.get_mut(usize::from(window.at)..)?.first_chunk_mut()? =
                    window.bytes.to_le_bytes();
            }
        }
        for (piece, &field) in self.fields.iter().zip(fields) {
            let at = usize::from(piece.at);
            let text = out.get_mut(at..at + usize::from(piece.len))?;
            let fits = match piece.kind {
                Kind::Literal => false,
                Kind::Digits => digits::write_decimal(field, text),
                Kind::Hex { upper } => digits::write_hex(field, text, upper),
                Kind::Date { separator } => {
                    calendar::write_date(field, text.first_chunk_mut()?, separator)
                }
                Kind::CompactDate => calendar::write_compact(field, text.first_chunk_mut()?),
                Kind::DateTime {
                    separator,
                    between,
                    fraction,
                } => {
                    let (date, rest) = text.split_first_chunk_mut::<DATE_LEN>()?;
                    let (byte, rest) = rest.split_first_mut()?;
                    let (time, rest) = rest.split_first_chunk_mut::<TIME_LEN>()?;
                    *byte = between;
                    let seconds = fraction.write(field, DAY_MIN * DAY_SECONDS, rest)?;
                    let (days, of_day) = split(seconds, DAY_SECONDS as u64);
                    let days = days as i64 + DAY_MIN;
                    calendar::write_date(days, date, separator)
                        && calendar::write_time(of_day, time)
                }
                Kind::Time { fraction } => {
                    let (time, rest) = text.split_first_chunk_mut::<TIME_LEN>()?;
                    calendar::write_time(fraction.write(field, 0, rest)?, time)
                }
                Kind::Choice(list) => {
                    let bytes = &self.choices.get(usize::from(list))?.bytes;
                    *text.first_mut()? = *bytes.get(usize::try_from(field).ok()?)?;
                    true
                }
            };
            if !fits {
                return None;
            }
        }
        Some(())
    }

    /// Appends the stored form. [`Template::take`] finds its end.
    pub fn put(&self, out: &mut Vec<u8>) {
        format::put(self, out);
    }

    /// The template that is stored at the beginning of `bytes`, and its length. `None` if the bytes
    /// are not valid.
    pub fn take(bytes: &[u8]) -> Option<(Template, usize)> {
        format::take(bytes)
    }

    /// The form in words, for display: `date`, `Customer#{9}`, `uuid`, `hex 16`.
    pub fn describe(&self) -> String {
        describe::describe(self)
    }
}

impl Kind {
    /// Whether a piece of this kind can have this length.
    fn fits(self, len: usize) -> bool {
        match self {
            Kind::Literal => len > 0,
            Kind::Digits => (1..=digits::DECIMAL_MAX).contains(&len),
            Kind::Hex { .. } => (1..=digits::HEX_MAX).contains(&len),
            Kind::Date { .. } => len == DATE_LEN,
            Kind::CompactDate => len == COMPACT_LEN,
            Kind::DateTime { fraction, .. } => len == DATE_LEN + 1 + TIME_LEN + fraction.len(),
            Kind::Time { fraction } => len == TIME_LEN + fraction.len(),
            Kind::Choice(_) => len == 1,
        }
    }
}

#[cfg(test)]
mod tests;

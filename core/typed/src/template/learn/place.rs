//! The bytes that samples of one length have at one place of the text.

use super::enough;

/// How often each byte occurs at one place.
pub(super) type Counts = [u32; 256];

/// A class of bytes.
#[derive(Clone, Copy)]
pub(super) enum Class {
    Byte(u8),
    Digit,
    HexLower,
    HexUpper,
    Any,
}

impl Class {
    /// The narrowest class that has enough of `rows` values. A digit that never varies is a class
    /// of its own only with `constants`.
    pub(super) fn of(counts: &Counts, rows: usize, constants: bool) -> Class {
        let held = |class: Class| -> usize {
            let bytes = (0..=255u8)
                .zip(counts)
                .filter(|(byte, _)| class.holds(*byte));
            bytes.map(|(_, count)| *count as usize).sum()
        };
        let commonest = (0..=255u8).zip(counts).max_by_key(|(_, count)| **count);
        let byte = commonest.map_or(0, |(byte, _)| byte);
        let single = constants || !byte.is_ascii_hexdigit();
        [
            Class::Byte(byte),
            Class::Digit,
            Class::HexLower,
            Class::HexUpper,
        ]
        .into_iter()
        .filter(|class| single || !matches!(class, Class::Byte(_)))
        .find(|class| enough(held(*class), rows))
        .unwrap_or(Class::Any)
    }

    pub(super) fn holds(self, byte: u8) -> bool {
        match self {
            Class::Byte(only) => byte == only,
            Class::Digit => byte.is_ascii_digit(),
            Class::HexLower => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Class::HexUpper => matches!(byte, b'0'..=b'9' | b'A'..=b'F'),
            Class::Any => true,
        }
    }
}

/// One place of the text, in the samples that the template is made of.
pub(super) struct Place {
    /// The bytes that occur, ascending.
    pub(super) bytes: Vec<u8>,
}

impl Place {
    pub(super) fn of(counts: &Counts) -> Place {
        let bytes = (0..=255u8).zip(counts).filter(|(_, count)| **count > 0);
        Place {
            bytes: bytes.map(|(byte, _)| byte).collect(),
        }
    }

    pub(super) fn constant(&self) -> Option<u8> {
        match *self.bytes.as_slice() {
            [byte] => Some(byte),
            _ => None,
        }
    }

    pub(super) fn varies(&self) -> bool {
        self.bytes.len() > 1
    }

    pub(super) fn all(&self, class: Class) -> bool {
        self.bytes.iter().all(|byte| class.holds(*byte))
    }

    pub(super) fn digits(&self) -> bool {
        self.all(Class::Digit)
    }

    pub(super) fn constant_letter(&self) -> bool {
        self.constant()
            .is_some_and(|byte| byte.is_ascii_alphabetic())
    }

    /// The case of hexadecimal digits, if letters are among them.
    pub(super) fn hex_case(&self) -> Option<Case> {
        if self.digits() {
            None
        } else if self.all(Class::HexLower) {
            Some(Case::Lower)
        } else if self.all(Class::HexUpper) {
            Some(Case::Upper)
        } else {
            None
        }
    }

    /// Whether the place is part of a number: it has digits, or hexadecimal letters that vary.
    pub(super) fn numeric(&self) -> bool {
        self.digits() || self.varies() && self.hex_case().is_some()
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Case {
    Lower,
    Upper,
}

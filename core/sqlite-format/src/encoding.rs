//! How a database stores its text: the field at 56 of the header.

/// An encoding of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// 1, and any number that is not one of the others.
    Utf8,
    /// 2.
    Utf16le,
    /// 3.
    Utf16be,
}

impl Encoding {
    /// That of the header's field.
    pub fn of(number: u32) -> Encoding {
        match number {
            2 => Encoding::Utf16le,
            3 => Encoding::Utf16be,
            _ => Encoding::Utf8,
        }
    }

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "UTF-8",
            Encoding::Utf16le => "UTF-16le",
            Encoding::Utf16be => "UTF-16be",
        }
    }

    /// Whether these bytes can be text: SQLite stores no half of a UTF-16 unit.
    pub fn is_whole(self, bytes: &[u8]) -> bool {
        self == Encoding::Utf8 || bytes.len().is_multiple_of(2)
    }

    /// Text as it is stored; `None` if it is malformed.
    pub fn text(self, bytes: &[u8]) -> Option<String> {
        match self {
            Encoding::Utf8 => std::str::from_utf8(bytes).ok().map(str::to_owned),
            _ => String::from_utf16(&self.units(bytes)).ok(),
        }
    }

    /// Text as it can be read: with U+FFFD in the place of what is malformed.
    pub fn readable(self, bytes: &[u8]) -> String {
        match self {
            Encoding::Utf8 => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::from_utf16_lossy(&self.units(bytes)),
        }
    }

    fn units(self, bytes: &[u8]) -> Vec<u16> {
        let unit = match self {
            Encoding::Utf16be => u16::from_be_bytes,
            _ => u16::from_le_bytes,
        };
        let pairs = bytes.as_chunks::<2>().0;
        pairs.iter().map(|pair| unit(*pair)).collect()
    }
}

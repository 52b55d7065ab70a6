//! The parts of a target, and helpers that several targets use.

/// One decoder under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which its corpus has too.
    pub name: &'static str,
    /// Decodes the bytes and checks the invariants. The result stands for what happened, so that
    /// the fuzzer can tell new behaviour from old.
    pub run: fn(&[u8]) -> u64,
    /// Makes checksums right, if the bytes have any.
    pub repair: fn(&mut [u8]),
    /// Where fields are: offset and size. A field can lie outside the bytes.
    pub fields: fn(&[u8]) -> Fields,
    /// Valid inputs, with names.
    pub seeds: fn() -> Seeds,
}

/// Offset and size of fields.
pub(crate) type Fields = Vec<(usize, usize)>;

/// Inputs and their names.
pub(crate) type Seeds = Vec<(&'static str, Vec<u8>)>;

/// The repair of bytes without checksums.
pub(crate) fn no_repair(_: &mut [u8]) {}

/// The fields of bytes whose fields have no fixed place.
pub(crate) fn no_fields(_: &[u8]) -> Fields {
    Vec::new()
}

/// Adds fields of these sizes, one behind the other from `at`.
pub(crate) fn row(at: usize, sizes: &[usize], out: &mut Fields) {
    let mut at = at;
    for size in sizes {
        out.push((at, *size));
        at += size;
    }
}

/// Overwrites the bytes from `at` on. Does nothing if the value does not fit.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(to) = bytes.get_mut(at..at + value.len()) {
        to.copy_from_slice(value);
    }
}

/// A number for an outcome that a text describes. Digits do not count, so places and lengths make
/// no difference.
pub(crate) fn outcome(text: &str) -> u64 {
    let plain: String = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    densite_disk::hash::xxh3_64(plain.as_bytes())
}

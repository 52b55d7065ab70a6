//! SQLite's variable-length integers (<https://www.sqlite.org/fileformat2.html#varint>): groups of
//! seven bits, the highest first. The top bit of a byte says that another byte follows. All eight
//! bits of a ninth byte count.

/// Most bytes that a number takes.
const LEN_MAX: usize = 9;

/// The number at the beginning of `bytes`, and how many bytes it takes. `None` if it does not end
/// there, or if fewer bytes would do: SQLite always writes the shortest form.
#[inline]
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match *bytes {
        [a, ..] if a < 0x80 => Some((u64::from(a), 1)),
        [a, b, ..] if b < 0x80 && a > 0x80 => Some((u64::from(a & 0x7f) << 7 | u64::from(b), 2)),
        [a, b, c, ..] if b >= 0x80 && c < 0x80 && a > 0x80 => {
            let value = u64::from(a & 0x7f) << 14 | u64::from(b & 0x7f) << 7 | u64::from(c);
            Some((value, 3))
        }
        [a, b, c, d, ..] if b >= 0x80 && c >= 0x80 && d < 0x80 && a > 0x80 => {
            let high = u64::from(a & 0x7f) << 21 | u64::from(b & 0x7f) << 14;
            Some((high | u64::from(c & 0x7f) << 7 | u64::from(d), 4))
        }
        _ => long_shortest(bytes),
    }
}

/// Not inlined, so that [`varint`] is small enough to be.
#[inline(never)]
fn long_shortest(bytes: &[u8]) -> Option<(u64, usize)> {
    long(bytes).filter(|(value, len)| varint_len(*value) == *len)
}

/// The same for a number that can take more bytes than necessary, as SQLite reads it.
#[inline]
pub fn any_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    match bytes.first() {
        Some(&byte) if byte < 0x80 => Some((u64::from(byte), 1)),
        _ => long(bytes),
    }
}

fn long(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (i, &byte) in bytes.iter().take(LEN_MAX).enumerate() {
        if i == LEN_MAX - 1 {
            return Some((value << 8 | u64::from(byte), LEN_MAX));
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Bytes that `value` takes, 1 to 9.
#[inline]
pub fn varint_len(value: u64) -> usize {
    let bits = (64 - (value | 1).leading_zeros()) as usize;
    bits.div_ceil(7).min(LEN_MAX)
}

/// Writes `value` to the beginning of `out` and returns the bytes that it takes. Returns 0 and
/// writes nothing if `out` is shorter.
#[inline]
pub fn put_varint(value: u64, out: &mut [u8]) -> usize {
    let len = varint_len(value);
    let Some(out) = out.get_mut(..len) else {
        return 0;
    };
    let mut rest = value;
    let mut bytes = out.iter_mut().rev();
    if let Some(last) = bytes.next() {
        if len == LEN_MAX {
            *last = rest as u8;
            rest >>= 8;
        } else {
            *last = rest as u8 & 0x7f;
            rest >>= 7;
        }
    }
    for byte in bytes {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    len
}

/// The bytes of a number below 2^28, the last one in the lowest byte of the result, and how many
/// they are. Without branches: lengths of payloads are often about 128.
#[inline(always)]
pub fn short_varint(v: u64) -> (u64, usize) {
    let more = [0x80, 0x4000, 0x20_0000].map(|least| usize::from(v >= least));
    let len = 1 + more.iter().sum::<usize>();
    let groups = v & 0x7f | (v & 0x3f80) << 1 | (v & 0x1f_c000) << 2 | (v & 0xfe0_0000) << 3;
    let tops = 0x8080_8000 & !(u64::MAX << (8 * len));
    (groups | tops, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_those_of_the_file_format() {
        let mut out = [0u8; LEN_MAX];
        for (value, bytes) in [
            (0, &[0][..]),
            (127, &[0x7f]),
            (128, &[0x81, 0]),
            (16_383, &[0xff, 0x7f]),
            (16_384, &[0x81, 0x80, 0]),
            (
                (1 << 56) - 1,
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            ),
            (
                1 << 56,
                &[0x80, 0xc0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0],
            ),
            (u64::MAX, &[0xff; 9]),
        ] {
            assert_eq!(put_varint(value, &mut out), bytes.len());
            assert_eq!(out.get(..bytes.len()), Some(bytes));
            assert_eq!(varint(bytes), Some((value, bytes.len())));
            let cut = bytes.len() - 1;
            assert_eq!(varint(bytes.get(..cut).expect("shorter")), None);
            assert_eq!(put_varint(value, out.get_mut(..cut).expect("shorter")), 0);
        }
    }

    #[test]
    fn longer_forms_are_refused_unless_any_form_is_read() {
        for (bytes, value) in [
            (&[0x80, 0][..], 0),
            (&[0x80, 0x7f], 0x7f),
            (&[0x80, 0x81, 0], 0x80),
            (&[0x80; 9], 0x80),
            (&[0x80, 0x80, 0x80, 1], 1),
        ] {
            assert_eq!(varint(bytes), None, "{bytes:x?}");
            assert_eq!(any_varint(bytes), Some((value, bytes.len())));
        }
    }

    proptest! {
        #[test]
        fn short_varints_are_varints(value in 0u64..1 << 28, shift in 0u32..28) {
            let value = value >> shift;
            let mut out = [0; LEN_MAX];
            let len = put_varint(value, &mut out);
            let (bytes, short_len) = short_varint(value);
            prop_assert_eq!(short_len, len);
            let bytes = bytes.to_be_bytes();
            prop_assert_eq!(bytes.get(8 - len..), out.get(..len));
        }

        #[test]
        fn varints_are_read_as_they_were_written(value: u64, shift in 0u32..64, behind: u8) {
            let value = value >> shift;
            let mut out = [behind; LEN_MAX + 1];
            let len = put_varint(value, &mut out);
            prop_assert_eq!(len, varint_len(value));
            prop_assert_eq!(varint(&out), Some((value, len)));
        }

        #[test]
        fn varints_are_written_as_they_were_read(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            if let Some((value, len)) = varint(&bytes) {
                prop_assert_eq!(any_varint(&bytes), Some((value, len)));
                let mut out = [0; LEN_MAX];
                prop_assert_eq!(put_varint(value, &mut out), len);
                prop_assert_eq!(out.get(..len), bytes.get(..len));
            }
        }
    }
}

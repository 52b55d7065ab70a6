//! Radix sort by codes.
//!
//! Inserted rows have keys of few bits (identifiers, numbers within a range). Two passes over them
//! cost a tenth of a comparison sort.

/// Below this number of rows, a comparison sort is as fast.
const ROWS_MIN: usize = 512;
/// The most bits of a digit. The places that are written to at a time then fit into the cache.
const DIGIT_BITS_MAX: u32 = 11;

/// Sorts by the lowest `bits` bits of the codes; the other bits are 0. Equal codes keep their
/// order.
pub(crate) fn sort<T: Copy>(rows: Vec<(u64, T)>, bits: u32) -> Vec<(u64, T)> {
    let mut rows = rows;
    if rows.len() < ROWS_MIN {
        rows.sort_by_key(|(code, _)| *code);
        return rows;
    }
    let passes = bits.div_ceil(DIGIT_BITS_MAX).max(1);
    let width = bits.div_ceil(passes);
    let Some(&filler) = rows.first() else {
        return rows;
    };
    let mut other = vec![filler; rows.len()];
    for pass in 0..passes {
        if scatter(&rows, &mut other, pass * width, width) {
            std::mem::swap(&mut rows, &mut other);
        }
    }
    rows
}

/// Copies the rows in the order of one digit. Returns false and copies nothing if all rows have the
/// same digit.
fn scatter<T: Copy>(from: &[(u64, T)], to: &mut [(u64, T)], shift: u32, width: u32) -> bool {
    let mask = (1u64 << width) - 1;
    // Less than 2^11.
    let digit = |code: u64| usize::try_from(code >> shift & mask).unwrap_or(0);
    let mut starts = vec![0usize; 1 << width];
    for (code, _) in from {
        if let Some(count) = starts.get_mut(digit(*code)) {
            *count += 1;
        }
    }
    if starts.contains(&from.len()) {
        return false;
    }
    let mut start = 0;
    for place in &mut starts {
        start += std::mem::replace(place, start);
    }
    for row in from {
        if let Some(place) = starts.get_mut(digit(row.0)) {
            if let Some(to) = to.get_mut(*place) {
                *to = *row;
            }
            *place += 1;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_codes_keep_their_order_whatever_the_bits() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for bits in [1, 7, 11, 12, 23, 33, 63, 64] {
            for rows in [0, 1, ROWS_MIN - 1, ROWS_MIN, 5_000] {
                let rows: Vec<(u64, usize)> = (0..rows)
                    .map(|i| {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        // Every other code is one of a few, so that there are equal codes.
                        let code = if i % 2 == 0 { state % 17 } else { state };
                        (code & (u64::MAX >> (64 - bits)), i)
                    })
                    .collect();
                let mut wanted = rows.clone();
                wanted.sort();
                assert_eq!(sort(rows, bits), wanted, "{bits} bits");
            }
        }
    }
}

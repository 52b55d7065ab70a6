//! Numbers without a Rust type.

/// The value of a half-precision number (IEEE 754 binary16), from its bits.
pub(crate) fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f64::from(bits & 0x3ff);
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn halves_of_every_kind() {
        for (bits, x) in [
            (0x0000, 0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x0400, 6.103515625e-5),
            (0x0001, 5.960464477539063e-8),
            (0x3555, 0.333251953125),
            (0xfc00, f64::NEG_INFINITY),
        ] {
            assert_eq!(half(bits), x, "{bits:04x}");
        }
        assert!(half(0x7e00).is_nan());
    }
}

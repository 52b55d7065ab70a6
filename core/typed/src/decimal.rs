//! REAL values that are decimals with few digits behind the point, as integers.
//!
//! A value `x` has the scaled integer `m` at scale `s` if `m / 10^s == x` bit for bit and `|m| <
//! 2^53`. Then `m` and `10^s` are exact as REAL, and the division rounds once. So a number with `s`
//! digits behind the point is parsed to this `x`. The idea is that of ALP (Afroozeh, Kuffo, Boncz,
//! SIGMOD 2024), which multiplies by two powers instead of dividing.

/// The largest scale.
pub const SCALE_MAX: u8 = 18;

/// Scaled integers are smaller than this in magnitude, so a REAL holds each of them exactly.
const SCALED_END: f64 = 9_007_199_254_740_992.0;
/// Up to this magnitude, adding [`ROUNDER`] puts the whole number into the lowest bits.
const ROUNDED_END: f64 = 2_251_799_813_685_248.0;
/// 1.5 * 2^52.
const ROUNDER: f64 = 6_755_399_441_055_744.0;
/// Up to this magnitude, a product's error is too small to change the rounded number.
const SURE_END: f64 = 1_125_899_906_842_624.0;

/// Powers of ten. A REAL holds each of these exactly.
const POWERS: [f64; SCALE_MAX as usize + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18,
];

/// The smallest scale, 0 to [`SCALE_MAX`], at which at least `part` (0 to 1) of the finite samples
/// have a scaled integer. `None` if no scale does, or if no sample is finite.
pub fn scale_of(samples: &[f64], part: f64) -> Option<u8> {
    let finite = samples.iter().filter(|x| x.is_finite()).count();
    // Products such as 0.07 * 100 can be slightly above their whole number.
    let wanted = (part * finite as f64 - 1e-6).ceil().max(1.0);
    if finite == 0 || wanted > finite as f64 {
        return None;
    }
    let misses_max = finite - wanted as usize;
    (0..=SCALE_MAX).find(|&scale| {
        let mut misses = 0;
        samples.iter().filter(|x| x.is_finite()).all(|&x| {
            misses += usize::from(to_scaled(x, scale).is_none());
            misses <= misses_max
        })
    })
}

/// The integer `m`, `|m| < 2^53`, with `m / 10^scale == x` bit for bit. `None` if there is none (as
/// for -0.0, NaN and the infinities), or if `scale` is above [`SCALE_MAX`]. If several integers fit
/// (above 2^52), one of them.
#[inline]
pub fn to_scaled(x: f64, scale: u8) -> Option<i64> {
    let product = x * POWERS.get(scale as usize)?;
    if product.abs() < SURE_END {
        // The addition rounds to the nearest whole number, which is then the difference of the
        // bits.
        let m = (product + ROUNDER)
            .to_bits()
            .wrapping_sub(ROUNDER.to_bits()) as i64;
        return (from_scaled(m, scale).to_bits() == x.to_bits()).then_some(m);
    }
    to_scaled_large(x, product, scale)
}

/// As [`to_scaled`], for products whose rounding can have moved them to a neighbouring whole
/// number.
#[cold]
fn to_scaled_large(x: f64, product: f64, scale: u8) -> Option<i64> {
    if product.is_nan() || product.abs() > SCALED_END + 4.0 {
        return None;
    }
    let near = product.round() as i64;
    [near, near - 1, near + 1, near - 2, near + 2]
        .into_iter()
        .find(|&m| (m as f64).abs() < SCALED_END && from_scaled(m, scale).to_bits() == x.to_bits())
}

/// `m / 10^scale`, correctly rounded if `|m| <= 2^53`. NaN if `scale` is above [`SCALE_MAX`].
#[inline]
pub fn from_scaled(m: i64, scale: u8) -> f64 {
    m as f64 / POWERS.get(scale as usize).copied().unwrap_or(f64::NAN)
}

// The fast path of `to_scaled` depends on this.
const _: () = assert!(SURE_END < ROUNDED_END);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const END: i64 = 1 << 53;

    proptest! {
        #[test]
        fn scaled_integers_round_trip(m in -END + 1..END, scale in 0..=SCALE_MAX, shift in 0..53) {
            let m = m >> shift;
            let x = from_scaled(m, scale);
            let back = to_scaled(x, scale).expect("has a scaled integer");
            prop_assert_eq!(from_scaled(back, scale).to_bits(), x.to_bits());
            prop_assert!(back.abs() < END);
            if m.abs() < END / 2 {
                prop_assert_eq!(back, m);
            }
        }

        #[test]
        fn a_scaled_integer_equals_the_parsed_decimal(m in -END + 1..END, scale in 0..=SCALE_MAX) {
            let text = format!("{m}e-{scale}");
            prop_assert_eq!(from_scaled(m, scale), text.parse::<f64>().expect("a number"));
        }

        #[test]
        fn any_bits_round_trip_or_have_no_scaled_integer(bits in any::<u64>(), scale in any::<u8>()) {
            let x = f64::from_bits(bits);
            if let Some(m) = to_scaled(x, scale) {
                prop_assert_eq!(from_scaled(m, scale).to_bits(), bits);
                prop_assert!(m.abs() < END);
            }
        }

        #[test]
        fn only_a_scale_that_is_too_large_gives_nan(m in any::<i64>(), scale in any::<u8>()) {
            prop_assert_eq!(from_scaled(m, scale).is_nan(), scale > SCALE_MAX);
        }

        #[test]
        fn the_scale_of_decimals_is_detected(numbers in prop::collection::vec(-100_000_000i64..100_000_000, 1..50), scale in 0..10u8) {
            let samples: Vec<f64> = numbers.iter().map(|&m| from_scaled(m, scale)).collect();
            let found = scale_of(&samples, 1.0).expect("detects decimals");
            prop_assert!(found <= scale);
            prop_assert!(samples.iter().all(|&x| to_scaled(x, found).is_some()));
            if found > 0 {
                prop_assert!(samples.iter().any(|&x| to_scaled(x, found - 1).is_none()));
            }
        }
    }

    #[test]
    fn other_values_have_no_scaled_integer() {
        for x in [
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
            f64::MAX,
            END as f64,
            -(END as f64),
            std::f64::consts::PI,
        ] {
            for scale in 0..=2 {
                assert_eq!(to_scaled(x, scale), None, "{x} at {scale}");
            }
        }
        assert_eq!(to_scaled((END - 1) as f64, 0), Some(END - 1));
        assert_eq!(to_scaled(1.0, SCALE_MAX + 1), None);
        assert!(from_scaled(1, 255).is_nan());
        assert_eq!(from_scaled(i64::MIN, 0), -9.223372036854776e18);
    }

    #[test]
    fn a_scale_needs_the_given_part_of_finite_samples() {
        let mut samples = vec![0.25; 95];
        samples.extend([1e300; 5]);
        assert_eq!(scale_of(&samples, 0.95), Some(2));
        assert_eq!(scale_of(&samples, 0.96), None);
        // Samples that are not finite are ignored.
        samples.extend([f64::NAN; 50]);
        samples.extend([f64::INFINITY; 50]);
        assert_eq!(scale_of(&samples, 0.95), Some(2));
        assert_eq!(scale_of(&[f64::NAN], 0.5), None);
        assert_eq!(scale_of(&[], 0.5), None);
        assert_eq!(scale_of(&[1.0, 2.0], 1.0), Some(0));
        assert_eq!(scale_of(&[1.0, 0.07], 1.0), Some(2));
        assert_eq!(scale_of(&[1.0], f64::NAN), Some(0));
        assert_eq!(scale_of(&[1.0], 2.0), None);
    }

    #[test]
    #[ignore = "a measurement"]
    fn speed() {
        let samples: Vec<f64> = (0..4096)
            .map(|i| from_scaled(i * 7919 - 9_000_000, 2))
            .collect();
        let rounds = 2000;
        let per =
            |taken: std::time::Duration| taken.as_nanos() as f64 / (rounds * samples.len()) as f64;
        let began = std::time::Instant::now();
        let mut sum = 0i64;
        for _ in 0..rounds {
            for &x in std::hint::black_box(&samples) {
                sum = sum.wrapping_add(to_scaled(x, 2).unwrap_or(1));
            }
        }
        println!("to_scaled   {:6.2} ns", per(began.elapsed()));
        let numbers: Vec<i64> = (0..4096).map(|i| i * 7919 - 9_000_000).collect();
        let mut out = vec![0f64; numbers.len()];
        let began = std::time::Instant::now();
        for _ in 0..rounds {
            for (to, &m) in out.iter_mut().zip(std::hint::black_box(&numbers)) {
                *to = from_scaled(m, 2);
            }
            std::hint::black_box(&mut out);
        }
        println!("from_scaled {:6.2} ns   ({sum})", per(began.elapsed()));
    }
}

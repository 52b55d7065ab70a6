use super::*;
use crate::bits::PADDING;
use proptest::prelude::*;

/// Sequences like those of pages: random, sorted, in runs, regular, extreme.
fn values() -> impl Strategy<Value = Vec<i64>> {
    let small = prop::collection::vec(-100i64..100, 0..80);
    let wild = prop::collection::vec(any::<i64>(), 0..40);
    let sorted = prop::collection::vec(0i64..1000, 0..80).prop_map(|mut v| {
        v.sort();
        v
    });
    let regular = (any::<i64>(), any::<i64>(), 0i64..60)
        .prop_map(|(a, b, n)| (0..n).map(|i| a.wrapping_add(b.wrapping_mul(i))).collect());
    let runs = prop::collection::vec((any::<i16>(), 1usize..20), 0..10).prop_map(|runs| {
        runs.into_iter()
            .flat_map(|(v, n)| std::iter::repeat_n(i64::from(v), n))
            .collect()
    });
    let ramps = prop::collection::vec(prop::collection::vec(0i64..100_000, 1..30), 0..6).prop_map(
        |ramps| {
            let sorted = ramps.into_iter().map(|mut ramp| {
                ramp.sort();
                ramp
            });
            sorted.collect::<Vec<_>>().concat()
        },
    );
    prop_oneof![small, wild, sorted, regular, runs, ramps]
}

fn read_back(
    bytes: &[u8],
    n: usize,
    params: impl Fn(&mut BitReader<'_>) -> Option<Params>,
) -> Option<Vec<i64>> {
    let padded = [bytes, &[0xff; PADDING]].concat();
    let mut r = BitReader::new(&padded);
    let mut out = vec![0; n];
    params(&mut r)?.read(&mut r, &mut out)?;
    Some(out)
}

fn own(defaults: &DefaultParameters, r: &mut BitReader<'_>) -> Option<Params> {
    let mut params = defaults.params;
    defaults.take_own(&mut params, r)?;
    Some(params)
}

proptest! {
    #[test]
    fn every_shape_round_trips(values in values()) {
        let s = Stats::of(&values);
        for p in [s.frame(), s.delta(), s.curve(), s.by_runs(), s.by_ramps(), s.best()] {
            let mut w = BitWriter::default();
            p.put(&mut w);
            prop_assert_eq!(w.len(), p.own_bits());
            p.write(&values, &mut w);
            prop_assert_eq!(w.len(), s.cost(&p));
            let mut bytes = Vec::new();
            w.finish(&mut bytes);
            prop_assert_eq!(read_back(&bytes, values.len(), Params::take), Some(values.clone()));
        }
    }

    #[test]
    fn partial_statistics_equal_the_full_ones(values in values()) {
        let s = Stats::of(&values);
        let (frame, steps, runs) = (Stats::of_frame(&values), Stats::of_steps(&values), Stats::of_runs(&values));
        prop_assert_eq!(s.by_ramps(), Stats::of_ramps(&values).by_ramps());
        prop_assert_eq!((s.frame(), s.delta(), s.by_runs()), (frame.frame(), steps.delta(), runs.by_runs()));
        prop_assert_eq!((s.n, s.runs, s.frame()), (runs.n, runs.runs, runs.frame()));
    }

    #[test]
    fn default_parameters_round_trip(values in values(), others in values(), own_widths: bool, local: bool, extra in 0u32..5) {
        let (s, o) = (Stats::of(&values), Stats::of(&others));
        for base in [o.frame(), o.delta(), o.by_runs(), o.by_ramps()] {
            let defaults = DefaultParameters {
                params: Params { width: (base.width + extra).min(64), ..base },
                anchor_width: local.then_some(20),
                own_widths,
                relation: Some(3),
            };
            let mut w = BitWriter::default();
            defaults.put(&mut w);
            let mut bytes = Vec::new();
            w.finish(&mut bytes);
            bytes.extend([0; PADDING]);
            prop_assert_eq!(DefaultParameters::take(&mut BitReader::new(&bytes), 4), Some(defaults));
            prop_assert_eq!(DefaultParameters::take(&mut BitReader::new(&bytes), 3), None);
            if let Some(p) = defaults.params_for(&s) {
                defaults.put_own(&p, &mut w);
                prop_assert_eq!(w.len(), defaults.own_bits());
                p.write(&values, &mut w);
                prop_assert_eq!(w.len(), defaults.own_bits() + p.value_bits(&s));
                let mut bytes = Vec::new();
                w.finish(&mut bytes);
                prop_assert_eq!(read_back(&bytes, values.len(), |r| own(&defaults, r)), Some(values.clone()));
            }
        }
    }

    #[test]
    fn any_bits_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60), n in 0usize..100) {
        read_back(&bytes, n, Params::take);
        read_back(&bytes, n, |r| own(&DefaultParameters::take(r, 9)?, r));
    }
}

#[test]
fn the_cheapest_shape_is_chosen() {
    let shape = |values: &[i64]| Stats::of(values).best().shape;
    assert_eq!(shape(&[5, 1, 7, 3, 2, 6, 4]), Shape::Frame);
    let counted: Vec<i64> = (1000..1100).collect();
    assert_eq!(shape(&counted), Shape::Delta);
    let squares: Vec<i64> = (0..100).map(|i| i * i * 1000).collect();
    assert_eq!(shape(&squares), Shape::Curve);
    let runs: Vec<i64> = (0..100).map(|i| i / 25 * 1_000_003 % 77_777).collect();
    assert_eq!(shape(&runs), Shape::Runs);
    let ramps: Vec<i64> = (0..100)
        .map(|i| i * 7919 % 1000 / 7 + i % 40 * 5000)
        .collect();
    assert_eq!(shape(&ramps), Shape::Ramps);
}

//! Any template, any text and any stored bytes.

use super::*;

#[test]
fn invalid_stored_forms_are_refused() {
    for bytes in [
        &[][..],
        &[0],
        &[255],
        &[1],
        &[1, 0, 1, b'x'], // no field
        &[1, 9],          // no such kind
        &[1, 1, 0],
        &[1, 1, 19],
        &[1, 2, 0],
        &[1, 3, 16],
        &[1, 4, b'x'],
        &[1, 6, b'-', b'_', 0],
        &[1, 6, b'-', b' ', 10, b'.'],
        &[1, 6, b'-', b' ', 3, b'x'],
        &[1, 7, 3],
        &[1, 8, 1, b'A'],       // a choice of one
        &[1, 8, 2, b'B', b'A'], // not ascending
        &[1, 8, 2, b'A', b'A'],
        &[2, 0, 0, 1, 3],                   // an empty literal
        &[3, 1, 3, 0, 1, b'a', 0, 1, b'b'], // two literals side by side
    ] {
        assert_eq!(Template::take(bytes), None, "{bytes:?}");
    }
    let mut many = vec![17];
    many.extend([1, 1].repeat(17));
    assert_eq!(Template::take(&many), None, "too many fields");
    many = vec![16];
    many.extend([1, 18].repeat(16));
    assert_eq!(Template::take(&many), None, "too long");
    let mut long = vec![2, 0, 254];
    long.extend([b'x'; 254]);
    long.extend([1, 1]);
    let (template, _) = Template::take(&long).expect("the longest");
    assert_eq!(template.text_len(), TEXT_MAX);
    let mut text = [b'x'; TEXT_MAX];
    text[254] = b'5';
    assert_eq!(parse(&template, &text), Some(vec![5]));
}

fn fraction() -> impl Strategy<Value = Fraction> {
    let some = (1..=FRACTION_MAX, prop::sample::select(b".,".to_vec()))
        .prop_map(|(digits, mark)| Fraction { digits, mark });
    prop_oneof![Just(Fraction::NONE), some]
}

fn part() -> impl Strategy<Value = (Kind, usize, Vec<u8>)> {
    let separator = || prop::sample::select(b"-/".to_vec());
    let between = prop::sample::select(b" T".to_vec());
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..30).prop_map(|text| (
            Kind::Literal,
            text.len(),
            text
        )),
        (1..=18usize).prop_map(|len| (Kind::Digits, len, vec![])),
        (any::<bool>(), 1..=15usize).prop_map(|(upper, len)| (Kind::Hex { upper }, len, vec![])),
        separator().prop_map(|separator| (Kind::Date { separator }, DATE_LEN, vec![])),
        Just((Kind::CompactDate, COMPACT_LEN, vec![])),
        (separator(), between, fraction()).prop_map(|(separator, between, fraction)| {
            (
                Kind::DateTime {
                    separator,
                    between,
                    fraction,
                },
                19 + fraction.len(),
                vec![],
            )
        }),
        fraction().prop_map(|fraction| (
            Kind::Time { fraction },
            TIME_LEN + fraction.len(),
            vec![]
        )),
        prop::collection::btree_set(any::<u8>(), 2..=CHOICES_MAX).prop_map(|bytes| (
            Kind::Choice(0),
            1,
            bytes.into_iter().collect()
        )),
    ]
}

fn template() -> impl Strategy<Value = Template> {
    prop::collection::vec(part(), 1..12).prop_filter_map("a rule is broken", |parts| {
        let parts: Vec<_> = parts
            .iter()
            .map(|(kind, len, bytes)| (*kind, *len, &bytes[..]))
            .collect();
        Template::new(&parts)
    })
}

/// Numbers of all magnitudes.
fn numbers() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(
        (any::<i64>(), 0..64u32).prop_map(|(n, shift)| n >> shift),
        FIELDS_MAX,
    )
}

proptest! {
    #[test]
    fn rendered_texts_are_parsed_to_the_same_fields(template in template(), mut numbers in numbers(), seed in any::<u64>()) {
        stored(&template);
        let _words = template.describe();
        let mut out = vec![0; template.text_len()];
        // Most of these numbers are out of range for some field.
        let mut rendered = template.render(&numbers, &mut out);
        if !rendered {
            let mut random = SmallRng::seed_from_u64(seed);
            let pieces = template.pieces.iter().filter(|piece| piece.kind != Kind::Literal);
            for (number, piece) in numbers.iter_mut().zip(pieces) {
                let units = |fraction: Fraction| digits::power(usize::from(fraction.digits));
                *number = match piece.kind {
                    Kind::Literal => 0,
                    Kind::Digits => random.random_range(0..digits::power(usize::from(piece.len))),
                    Kind::Hex { .. } => random.random_range(0..1 << (4 * piece.len)),
                    Kind::Date { .. } | Kind::CompactDate => random.random_range(DAY_MIN..=DAY_MAX),
                    Kind::DateTime { fraction, .. } => {
                        let low = (DAY_MIN * DAY_SECONDS).saturating_mul(units(fraction));
                        let end = ((DAY_MAX + 1) * DAY_SECONDS).saturating_mul(units(fraction));
                        random.random_range(low..end)
                    }
                    Kind::Time { fraction } => random.random_range(0..DAY_SECONDS * units(fraction)),
                    Kind::Choice(list) => {
                        random.random_range(0..template.choices[usize::from(list)].bytes.len() as i64)
                    }
                };
            }
            rendered = template.render(&numbers, &mut out);
            prop_assert!(rendered, "{:?}", numbers);
        }
        prop_assert_eq!(parse(&template, &out), Some(numbers[..template.fields()].to_vec()));
    }

    #[test]
    fn changed_values_round_trip_or_do_not_match(
            template in template(),
            numbers in numbers(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
        let mut out = vec![b'1'; template.text_len()];
        template.render(&numbers, &mut out);
        parse(&template, &out);
        *at.get_mut(&mut out) = byte;
        parse(&template, &out);
    }

    #[test]
    fn any_bytes_are_read_as_a_template_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Some((template, len)) = Template::take(&bytes) {
            prop_assert_eq!(&stored(&template), &bytes[..len]);
        }
    }

    #[test]
    fn damaged_stored_forms_are_valid_or_refused(
            template in template(),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            numbers in numbers(),
        ) {
        let mut bytes = stored(&template);
        *at.get_mut(&mut bytes) = byte;
        if let Some((template, len)) = Template::take(&bytes) {
            prop_assert_eq!(&stored(&template), &bytes[..len]);
            let mut out = vec![0; template.text_len()];
            if template.render(&numbers, &mut out) {
                prop_assert_eq!(parse(&template, &out), Some(numbers[..template.fields()].to_vec()));
            }
        }
    }

    #[test]
    fn a_learned_template_matches_enough_samples(
            samples in prop::collection::vec(
                "[0-9a-cA-C:. -]{3}|[0-9]{4}-0[1-9]-[0-2][1-9]|[a-c0-2]{6}[0-9]{2}",
                1..40,
            ),
        ) {
        if let Some(template) = learn(&samples) {
            let matching = samples.iter().filter(|s| parse(&template, s.as_bytes()).is_some()).count();
            prop_assert!(matching * 100 >= samples.len() * 98);
            stored(&template);
        }
    }

    #[test]
    fn forms_of_one_shape_are_learned(shape in "[a-z]{0,3}[#-][09]{1,18}[-_][0]{1,4}", seed in any::<u64>()) {
        let mut random = SmallRng::seed_from_u64(seed);
        let samples: Vec<String> = (0..50)
            .map(|_| shape.chars().map(|c| match c {
                '0' | '9' => char::from(random.random_range(b'0'..=b'9')),
                c => c,
            }).collect())
            .collect();
        let template = learn(&samples).expect("a form");
        prop_assert_eq!(template.fields(), 2);
        prop_assert!(samples.iter().all(|sample| parse(&template, sample.as_bytes()).is_some()));
    }
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let mut r = SmallRng::seed_from_u64(11);
    let r = &mut r;
    let mut forms: Vec<Vec<String>> = Vec::new();
    let n = 4096;
    forms.push((0..n).map(|_| date(r)).collect());
    forms.push((0..n).map(|_| date(r).replace('-', "")).collect());
    forms.push((0..n).map(|_| format!("{} {}", date(r), time(r))).collect());
    forms.push(
        (0..n)
            .map(|_| format!("{} {}.{:03}", date(r), time(r), r.random_range(0..1000)))
            .collect(),
    );
    forms.push(
        (0..n)
            .map(|_| format!("Customer#{:09}", r.random_range(1..150_000)))
            .collect(),
    );
    forms.push(
        (0..n)
            .map(|_| {
                format!(
                    "{:02}-{:03}-{:03}-{:04}",
                    r.random_range(0..99),
                    r.random_range(0..999),
                    r.random_range(0..999),
                    r.random_range(0..999)
                )
            })
            .collect(),
    );
    forms.push((0..n).map(|_| uuid(r)).collect());
    forms.push(
        (0..n)
            .map(|_| format!("{:016x}", r.random::<u64>()))
            .collect(),
    );
    forms.push(
        (0..n)
            .map(|_| format!("MFGR#{}", r.random_range(1..=5)))
            .collect(),
    );
    for form in forms {
        let began = std::time::Instant::now();
        let template = learn(&form).expect("a form");
        let learning = began.elapsed();
        let rounds = 100;
        let per = |taken: std::time::Duration| taken.as_nanos() as f64 / f64::from(rounds * 512);
        let len = template.text_len();
        let text: Vec<u8> = form[..512].concat().into_bytes();
        let mut numbers = vec![0; 512 * FIELDS_MAX];
        let mut out = vec![0; text.len()];
        let mut best = (f64::MAX, f64::MAX);
        for _ in 0..100 {
            let began = std::time::Instant::now();
            for _ in 0..rounds {
                let mut fields = [0; FIELDS_MAX];
                let slots = numbers.as_chunks_mut::<FIELDS_MAX>().0.iter_mut();
                for (value, slots) in std::hint::black_box(&text).chunks_exact(len).zip(slots) {
                    assert!(template.parse(value, &mut fields));
                    // The maximal number of fields, because a copy of variable length would be a
                    // call.
                    slots.copy_from_slice(&fields);
                }
            }
            best.0 = per(began.elapsed()).min(best.0);
            let began = std::time::Instant::now();
            for _ in 0..rounds {
                let slots = std::hint::black_box(&numbers).chunks_exact(FIELDS_MAX);
                for (value, slots) in out.chunks_exact_mut(len).zip(slots) {
                    assert!(template.render(slots, value));
                }
                std::hint::black_box(&mut out);
            }
            best.1 = per(began.elapsed()).min(best.1);
        }
        assert_eq!(out, text);
        println!(
            "{:20} parse {:6.2} ns, render {:6.2} ns; learned from {n} in {learning:?}",
            template.describe(),
            best.0,
            best.1
        );
    }
}

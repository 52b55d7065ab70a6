use super::calendar::DAY_MAX;
use super::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

fn learn(samples: &[String]) -> Option<Template> {
    let samples: Vec<&[u8]> = samples.iter().map(String::as_bytes).collect();
    Template::learn(&samples)
}

/// The fields of a value that matches. Checks that they are rendered to the same value.
fn parse(template: &Template, value: &[u8]) -> Option<Vec<i64>> {
    let mut fields = [0; FIELDS_MAX];
    template.parse(value, &mut fields).then(|| {
        let fields = &fields[..template.fields()];
        let mut out = vec![0xaa; value.len() + 3];
        assert!(template.render(fields, &mut out), "{fields:?}");
        assert_eq!(&out[..value.len()], value);
        assert_eq!(out[value.len()..], [0xaa; 3], "bytes behind the text");
        assert!(!template.render(fields, &mut out[..value.len() - 1]));
        assert!(!template.render(&fields[1..], &mut out));
        if let Some(write) = template.number_last() {
            let mut out = [0xaa; NUMBERED_MAX];
            assert!(write(fields[0], &mut out), "{fields:?}");
            assert_eq!(&out[..value.len()], value);
            assert!(!write(-1, &mut out));
        }
        fields.to_vec()
    })
}

/// Learns from `count` values. Checks that all of them match and that the stored form is read as
/// the same template.
fn learned(count: usize, mut value: impl FnMut(&mut SmallRng) -> String) -> Template {
    let mut random = SmallRng::seed_from_u64(7);
    let samples: Vec<String> = (0..count).map(|_| value(&mut random)).collect();
    let template = learn(&samples).unwrap_or_else(|| panic!("no template of {:?}", &samples[..2]));
    for sample in &samples {
        assert!(
            parse(&template, sample.as_bytes()).is_some(),
            "{sample} in {template:?}"
        );
    }
    stored(&template);
    template
}

fn stored(template: &Template) -> Vec<u8> {
    let mut bytes = Vec::new();
    template.put(&mut bytes);
    let len = bytes.len();
    bytes.push(9);
    assert_eq!(Template::take(&bytes), Some((template.clone(), len)));
    for cut in 0..len {
        assert_eq!(Template::take(&bytes[..cut]), None);
    }
    bytes.truncate(len);
    bytes
}

fn date(r: &mut SmallRng) -> String {
    let (year, month, day) = (
        r.random_range(1992..1999),
        r.random_range(1..=12),
        r.random_range(1..=28),
    );
    format!("{year:04}-{month:02}-{day:02}")
}

fn time(r: &mut SmallRng) -> String {
    let (hour, minute, second) = (
        r.random_range(0..24),
        r.random_range(0..60),
        r.random_range(0..60),
    );
    format!("{hour:02}:{minute:02}:{second:02}")
}

fn uuid(r: &mut SmallRng) -> String {
    let (a, b, c, d) = (
        r.random::<u32>(),
        r.random::<u16>(),
        r.random_range(0..0x1000),
        r.random_range(0x8000..0xc000),
    );
    format!(
        "{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{:012x}",
        r.random::<u64>() >> 16
    )
}

#[test]
fn forms_are_learned_and_described() {
    let n = 500;
    for (words, template) in [
        ("date", learned(n, date)),
        ("date with /", learned(n, |r| date(r).replace('-', "/"))),
        ("compact date", learned(n, |r| date(r).replace('-', ""))),
        (
            "date time",
            learned(n, |r| format!("{} {}", date(r), time(r))),
        ),
        (
            "{date time}Z",
            learned(n, |r| format!("{}T{}Z", date(r), time(r))),
        ),
        (
            "date time .sss",
            learned(n, |r| {
                format!("{} {}.{:03}", date(r), time(r), r.random_range(0..1000))
            }),
        ),
        (
            "date time ,sss",
            learned(n, |r| {
                format!("{} {},{:03}", date(r), time(r), r.random_range(0..1000))
            }),
        ),
        (
            "{date time .sssssssss}Z",
            learned(n, |r| {
                format!(
                    "{}T{}.{:09}Z",
                    date(r),
                    time(r),
                    r.random_range(0..1_000_000_000)
                )
            }),
        ),
        (
            "{date time .sss}000",
            learned(n, |r| {
                format!("{} {}.{:03}000", date(r), time(r), r.random_range(0..1000))
            }),
        ),
        (
            "{date time}.000",
            learned(n, |r| format!("{} {}.000", date(r), time(r))),
        ),
        (
            "{date} 00:00:00",
            learned(n, |r| format!("{} 00:00:00", date(r))),
        ),
        (
            "date time",
            learned(n, |r| format!("1996-03-13 {}", time(r))),
        ),
        (
            "{date}T{2}:{2}",
            learned(n, |r| format!("{}T{}", date(r), &time(r)[..5])),
        ),
        (
            "{date time}+{2}:00",
            learned(n, |r| {
                format!("{} {}+0{}:00", date(r), time(r), r.random_range(1..=2))
            }),
        ),
        ("time", learned(n, time)),
        (
            "time .s",
            learned(n, |r| format!("{}.{}", time(r), r.random_range(0..10))),
        ),
        (
            "Customer#{9}",
            learned(n, |r| format!("Customer#{:09}", r.random_range(1..150_000))),
        ),
        (
            "MFGR#{1}",
            learned(n, |r| format!("MFGR#{}", r.random_range(1..=5))),
        ),
        (
            "{2}-{3}-{3}-{4}",
            learned(n, |r| {
                let (a, b, c) = (
                    r.random_range(10..35),
                    r.random_range(100..1000),
                    r.random_range(100..1000),
                );
                format!("{a}-{b}-{c}-{}", r.random_range(1000..10000))
            }),
        ),
        ("uuid", learned(n, uuid)),
        ("uuid", learned(n, |r| uuid(r).to_uppercase())),
        ("{{uuid}}", learned(n, |r| format!("{{{}}}", uuid(r)))),
        (
            "hex 16",
            learned(n, |r| format!("{:016x}", r.random::<u64>())),
        ),
        (
            "hex 16",
            learned(n, |r| format!("deadbeef{:08x}", r.random::<u32>())),
        ),
        (
            "HEX 16",
            learned(n, |r| format!("{:016X}", r.random::<u64>())),
        ),
        (
            "hex 32",
            learned(n, |r| format!("{:032x}", r.random::<u128>())),
        ),
        (
            "hex 64",
            learned(n, |r| {
                format!("{:032x}{:032x}", r.random::<u128>(), r.random::<u128>())
            }),
        ),
        (
            "192.168.{3}.{3}",
            learned(n, |r| {
                format!(
                    "192.168.{:03}.{:03}",
                    r.random_range(0..3),
                    r.random_range(1..255)
                )
            }),
        ),
        (
            "ORD-{4}-{5}-[ABC]",
            learned(n, |r| {
                let (year, number) = (r.random_range(2020..=2025), r.random_range(0..99_999));
                format!(
                    "ORD-{year}-{number:05}-{}",
                    ["A", "B", "C"][r.random_range(0..3)]
                )
            }),
        ),
        (
            "Invoice{hex 4}",
            learned(n, |r| format!("Invoice{:04x}", r.random::<u16>())),
        ),
        (
            "[AB]{5}",
            learned(n, |r| {
                format!(
                    "{}{:05}",
                    ["A", "B"][r.random_range(0..2)],
                    r.random_range(0..100_000)
                )
            }),
        ),
        (
            "digits 12",
            learned(n, |r| {
                format!("{:012}", r.random_range(0..1_000_000_000_000u64))
            }),
        ),
        (
            "[NRX]",
            learned(n, |r| ["N", "R", "X"][r.random_range(0..3)].to_string()),
        ),
        (
            "digits 1",
            learned(n, |r| r.random_range(0..10).to_string()),
        ),
        (
            "{hex 2}:{hex 2}:{hex 2}:{hex 2}:{hex 2}:{hex 2}",
            learned(n, |r| {
                format!(
                    "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
                    r.random::<u8>(),
                    r.random::<u8>(),
                    r.random::<u8>(),
                    r.random::<u8>(),
                    r.random::<u8>(),
                    r.random::<u8>()
                )
            }),
        ),
    ] {
        let words = if words == "{{uuid}}" {
            template.describe()
        } else {
            words.to_string()
        };
        assert_eq!(template.describe(), words, "{template:?}");
    }
}

#[test]
fn fields_have_the_values_of_their_kind() {
    let template = learned(100, date);
    assert_eq!(parse(&template, b"1970-01-01"), Some(vec![0]));
    assert_eq!(parse(&template, b"1996-03-13"), Some(vec![9568]));
    assert_eq!(parse(&template, b"1969-12-31"), Some(vec![-1]));
    let template = learned(100, |r| format!("{}T{}Z", date(r), time(r)));
    assert_eq!(
        parse(&template, b"2024-01-31T23:59:58Z"),
        Some(vec![1_706_745_598])
    );
    assert_eq!(parse(&template, b"1969-12-31T23:59:59Z"), Some(vec![-1]));
    assert_eq!(
        parse(&template, b"0000-01-01T00:00:00Z"),
        Some(vec![-62_167_219_200])
    );
    let template = learned(100, |r| {
        format!("{} {}.{:03}", date(r), time(r), r.random_range(0..1000))
    });
    assert_eq!(
        parse(&template, b"2024-01-31 23:59:58.123"),
        Some(vec![1_706_745_598_123])
    );
    assert_eq!(parse(&template, b"1969-12-31 23:59:59.999"), Some(vec![-1]));
    let template = learned(100, |r| {
        format!("Customer#{:09}", r.random_range(1..150_000))
    });
    assert_eq!(parse(&template, b"Customer#000000001"), Some(vec![1]));
    assert_eq!(
        parse(&template, b"Customer#999999999"),
        Some(vec![999_999_999])
    );
    let template = learned(100, uuid);
    let fields = vec![0x550e_8400, 0xe29b, 0x41d4, 0xa716, 0x4466_5544_0000];
    assert_eq!(
        parse(&template, b"550e8400-e29b-41d4-a716-446655440000"),
        Some(fields)
    );
    assert_eq!(
        parse(&template, b"550e8400-E29b-41d4-a716-446655440000"),
        None
    );
    assert_eq!(
        parse(&template, b"550e8400-e29b-41d4_a716-446655440000"),
        None
    );
}

#[test]
fn every_date_round_trips() {
    let template = learned(100, date);
    let slashes = learned(100, |r| date(r).replace('-', "/"));
    let compact = learned(100, |r| date(r).replace('-', ""));
    let mut text = [0; 10];
    for day in DAY_MIN..=DAY_MAX {
        let mut back = [0; FIELDS_MAX];
        for (template, len) in [(&template, 10), (&slashes, 10), (&compact, 8)] {
            assert!(template.render(&[day], &mut text));
            assert!(template.parse(&text[..len], &mut back) && back[0] == day);
        }
    }
    assert_eq!(&text, b"9999123131");
    for day in [DAY_MIN - 1, DAY_MAX + 1, i64::MIN, i64::MAX] {
        assert!(!template.render(&[day], &mut text));
    }
}

#[test]
fn invalid_dates_and_times_do_not_match() {
    let template = learned(100, date);
    for value in [
        "1900-02-29",
        "2023-02-29",
        "2023-04-31",
        "2023-13-01",
        "2023-00-01",
        "2023-01-00",
        "2023-01-32",
        "2023-1-001",
        "2023/01/01",
        "2023-01/01",
        "+023-01-01",
        "2023-01-0",
        "2023-01-011",
        "",
        "２023-01-",
        "2023-01-1 ",
    ] {
        assert_eq!(parse(&template, value.as_bytes()), None, "{value}");
    }
    for value in ["2000-02-29", "2024-02-29", "0000-02-29", "9999-12-31"] {
        assert!(parse(&template, value.as_bytes()).is_some(), "{value}");
    }
    let template = learned(100, |r| format!("{} {}", date(r), time(r)));
    for time in [
        "24:00:00", "23:60:00", "23:59:60", "23:59-59", "23.59:59", "23:59: 9", "2a:59:59",
    ] {
        assert_eq!(
            parse(&template, format!("2024-02-29 {time}").as_bytes()),
            None,
            "{time}"
        );
    }
    assert_eq!(parse(&template, b"2024-02-29T23:59:59"), None);
    assert!(parse(&template, b"2024-02-29 23:59:59").is_some());
}

#[test]
fn a_long_fraction_limits_the_years() {
    let template = learned(100, |r| {
        format!(
            "{} {}.{:09}",
            date(r),
            time(r),
            r.random_range(0..1_000_000_000)
        )
    });
    assert_eq!(
        parse(&template, b"2262-04-11 23:47:16.854775807"),
        Some(vec![i64::MAX])
    );
    assert_eq!(parse(&template, b"2262-04-11 23:47:16.854775808"), None);
    assert_eq!(parse(&template, b"9999-12-31 23:59:59.999999999"), None);
    assert_eq!(parse(&template, b"0000-01-01 00:00:00.000000000"), None);
    assert_eq!(
        parse(&template, b"1677-09-21 00:12:43.145224192"),
        Some(vec![i64::MIN])
    );
    assert_eq!(parse(&template, b"1677-09-21 00:12:43.145224191"), None);
    let mut out = [0; 29];
    // Numbers that `parse` never returns are not rendered, or are rendered as a text that `parse`
    // accepts.
    for units in [
        i64::MIN,
        i64::MIN + 1,
        -9_223_372_036_000_000_001,
        -9_223_372_036_000_000_000,
        i64::MAX,
    ] {
        if template.render(&[units], &mut out) {
            assert_eq!(
                parse(&template, &out),
                Some(vec![units]),
                "{}",
                out.escape_ascii()
            );
        }
    }
}

#[test]
fn fractions_of_every_length_reach_both_ends() {
    for digits in 1..=FRACTION_MAX {
        let mark = b'.';
        let fraction = Fraction { digits, mark };
        let kind = Kind::DateTime {
            separator: b'-',
            between: b' ',
            fraction,
        };
        let template = Template::new(&[(kind, 19 + fraction.len(), &[])]).expect("a template");
        let power = i128::from(digits::power(usize::from(digits)));
        let low = i128::from(DAY_MIN * DAY_SECONDS) * power;
        let end = i128::from((DAY_MAX + 1) * DAY_SECONDS) * power;
        let mut out = vec![0; template.text_len()];
        let edges = [
            low,
            -power,
            0,
            end,
            i128::from(i64::MIN),
            i128::from(i64::MAX),
            low + (1 << 64),
            end - (1 << 64),
        ];
        for units in edges.into_iter().flat_map(|edge| edge - 2..edge + 3) {
            let Ok(field) = i64::try_from(units) else {
                continue;
            };
            assert_eq!(
                template.render(&[field], &mut out),
                (low..end).contains(&units),
                "{units} {digits}"
            );
            if (low..end).contains(&units) {
                assert_eq!(
                    parse(&template, &out),
                    Some(vec![field]),
                    "{}",
                    out.escape_ascii()
                );
            }
        }
        let time = Template::new(&[(Kind::Time { fraction }, 8 + fraction.len(), &[])])
            .expect("a template");
        let end = DAY_SECONDS * power as i64;
        for units in [i64::MIN, -1, 0, 1, end - 1, end, i64::MAX] {
            let mut out = vec![0; time.text_len()];
            assert_eq!(
                time.render(&[units], &mut out),
                (0..end).contains(&units),
                "{units} {digits}"
            );
            if (0..end).contains(&units) {
                assert_eq!(parse(&time, &out), Some(vec![units]));
            }
        }
    }
}

#[test]
fn a_few_samples_can_differ() {
    let mut random = SmallRng::seed_from_u64(1);
    type Maker = Box<dyn FnMut() -> String>;
    let mut make: Vec<(&str, Maker)> = Vec::new();
    let mut r = SmallRng::seed_from_u64(2);
    make.push(("date", Box::new(move || date(&mut r))));
    let mut r = SmallRng::seed_from_u64(3);
    make.push(("uuid", Box::new(move || uuid(&mut r))));
    let mut r = SmallRng::seed_from_u64(4);
    make.push((
        "Customer#{9}",
        Box::new(move || format!("Customer#{:09}", r.random_range(1..150_000))),
    ));
    let mut r = SmallRng::seed_from_u64(5);
    make.push((
        "{date} 00:00:00",
        Box::new(move || format!("{} 00:00:00", date(&mut r))),
    ));
    for (words, mut value) in make {
        for other in [
            "",
            "N/A",
            "0000-00-00",
            "0000-00-00 00:00:00",
            "1996-03-13 11:12:13",
            "same length",
            "unknown",
        ] {
            let odd = |random: &mut SmallRng, len: usize| match other {
                "same length" => (0..len)
                    .map(|_| char::from(random.random_range(b'!'..=b'~')))
                    .collect(),
                other => other.to_string(),
            };
            for (part, expected) in [(10, true), (15, true), (30, false), (50, false)] {
                let mut samples: Vec<String> = (0..1000).map(|_| value()).collect();
                for i in 0..part {
                    let place = (i * 1000 / part + 3) % 1000;
                    samples[place] = odd(&mut random, samples[place].len());
                }
                match (learn(&samples), expected) {
                    (Some(template), true) => {
                        assert_eq!(template.describe(), words, "{part} of {other}")
                    }
                    (None, true) => panic!("{part} of {other} in {words}"),
                    // The other values can fit a wider form, which then matches all samples.
                    (Some(template), false) => assert!(
                        samples
                            .iter()
                            .filter(|s| parse(&template, s.as_bytes()).is_some())
                            .count()
                            >= 980,
                        "{} for {words} and {part} of {other}",
                        template.describe()
                    ),
                    (None, false) => {}
                }
            }
        }
    }
}

#[test]
fn a_form_of_95_percent_is_not_learned() {
    let mut random = SmallRng::seed_from_u64(9);
    for (odd, some) in [(50, false), (21, false), (20, true), (10, true)] {
        let samples: Vec<String> = (0..1000)
            .map(|i| {
                if i < odd {
                    format!("none {i}")
                } else {
                    date(&mut random)
                }
            })
            .collect();
        assert_eq!(learn(&samples).is_some(), some, "{odd}");
    }
}

#[test]
fn values_without_a_common_form_have_no_template() {
    let words = [
        "alpha", "bravo", "delta", "hotel", "india", "kilos", "limas", "oscar", "papas", "romeo",
    ];
    let of = |values: &[&str]| learn(&values.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[""]), None);
    assert_eq!(of(&["", "", ""]), None);
    assert_eq!(of(&["same", "same"]), None);
    assert_eq!(of(&words), None);
    assert_eq!(of(&["DE", "US", "FR"]), None, "words of two letters");
    assert_eq!(of(&["1", "22", "333"]), None);
    let long = "7".repeat(TEXT_MAX + 1);
    assert_eq!(of(&[&long, &long.replace('7', "8")]), None);
    let many = "7-".repeat(FIELDS_MAX + 1);
    assert_eq!(of(&[&many, &many.replace('7', "8")]), None);
    let most = "7-".repeat(FIELDS_MAX);
    assert_eq!(
        of(&[&most, &most.replace('7', "8")]).map(|t| t.fields()),
        Some(FIELDS_MAX)
    );
    let letters: Vec<String> = (0..65u8)
        .map(|i| format!("{}1", char::from(b'!' + i + 10 * (i > 14) as u8)))
        .collect();
    assert!(
        learn(&letters).is_none(),
        "more different bytes than a choice can have"
    );
}

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

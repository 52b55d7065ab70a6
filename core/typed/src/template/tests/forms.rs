//! Which templates are learned, and what their fields are.

use super::*;

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
fn ids_and_hashes_are_hexadecimal_and_short_numbers_are_not() {
    let uuid = learned(500, |random| {
        let all = format!("{:032x}", random.random::<u128>());
        let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
        parts.map(|(from, to)| &all[from..to]).join("-")
    });
    let hash = learned(500, |random| {
        let halves = [(); 2].map(|()| random.random::<u128>());
        format!("{:032X}{:032X}", halves[0], halves[1])
    });
    let short = learned(500, |random| format!("{:08x}", random.random::<u32>()));
    let number = learned(500, |random| format!("{:018}", random.random::<u32>()));
    assert!(uuid.is_hexadecimal() && hash.is_hexadecimal());
    assert!(!short.is_hexadecimal() && !number.is_hexadecimal());
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

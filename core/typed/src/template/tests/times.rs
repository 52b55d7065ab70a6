//! Dates, times and fractions of seconds.

use super::*;

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

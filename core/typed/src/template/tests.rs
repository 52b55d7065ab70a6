//! Tests of templates. Here is what they have in common.

mod forms;
mod properties;
mod times;

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

//! Tests of whole tables.

use super::*;
use crate::bits::{BitReader, BitWriter, PADDING};
use proptest::prelude::*;

/// A table of the given texts, cut to the greatest length.
fn table(width: u32, texts: &[Vec<u8>]) -> Symbols {
    let symbols = texts.iter().filter(|t| !t.is_empty());
    Symbols::new(width, symbols.filter_map(|t| Symbol::new(t)).collect())
}

fn packed(symbols: &Symbols, codes: &[u16]) -> Vec<u8> {
    let mut writer = BitWriter::default();
    for code in codes {
        writer.put(u64::from(*code), symbols.width());
    }
    let mut bytes = Vec::new();
    writer.finish(&mut bytes);
    bytes.extend([0xff; PADDING]);
    bytes
}

fn decode(symbols: &Symbols, codes: &[u16], out: &mut [u8], at: usize) -> Option<usize> {
    let bytes = packed(symbols, codes);
    let mut run = BitReader::new(&bytes).run(codes.len(), symbols.width())?;
    let mut decoded = Codes::default();
    symbols.decode(&mut run, codes.len(), &mut decoded, out, at)?;
    decoded.end(codes.len())
}

fn check(symbols: &Symbols, value: &[u8]) {
    let mut codes = vec![7];
    symbols.encode(value, &mut codes);
    assert_eq!(codes.remove(0), 7, "codes are appended");
    assert!(codes.len() <= escape_codes(symbols.width) * value.len());
    let mut exact = vec![0xaa; value.len() + 3];
    assert_eq!(
        decode(symbols, &codes, &mut exact, 3),
        Some(value.len() + 3)
    );
    assert_eq!(&exact[3..], value);
    assert_eq!(exact[..3], [0xaa; 3]);
    let mut slack = vec![0xaa; value.len() + SYMBOL_MAX + 9];
    assert_eq!(decode(symbols, &codes, &mut slack, 0), Some(value.len()));
    assert_eq!(&slack[..value.len()], value);
    assert_eq!(
        slack[value.len() + SYMBOL_MAX + 1..],
        [0xaa; 8],
        "no more than the slack"
    );
    if let Some(short) = value.len().checked_sub(1) {
        assert_eq!(decode(symbols, &codes, &mut exact[..short], 0), None);
    }
}

/// Sentences of a few words, some of them with a number. The same seed gives the same sentences.
fn sentences(count: usize, mut seed: u64) -> Vec<Vec<u8>> {
    const WORDS: [&str; 16] = [
        "quickly",
        "furiously",
        "packages",
        "deposits",
        "carefully",
        "sleep",
        "among",
        "the",
        "ironic",
        "accounts",
        "regular",
        "requests",
        "haggle",
        "across",
        "blithely",
        "final",
    ];
    let mut next = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as usize
    };
    let mut sentence = || {
        let mut words: Vec<String> = (0..3 + next() % 5)
            .map(|_| WORDS[next() % 16].to_owned())
            .collect();
        if next() % 4 == 0 {
            words.push((next() % 1000).to_string());
        }
        words.join(" ").into_bytes()
    };
    (0..count).map(|_| sentence()).collect()
}

fn noise(count: usize) -> Vec<Vec<u8>> {
    let mut state = 88_172_645_463_325_252u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..count)
        .map(|_| (0..30).map(|_| next()).collect())
        .collect()
}

fn slices(values: &[Vec<u8>]) -> Vec<&[u8]> {
    values.iter().map(|v| &v[..]).collect()
}

/// Bytes, often of a small alphabet, so that symbols overlap.
fn text(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(b'a'..=b'c', 0..longest),
        1 => prop::collection::vec(0u8..=1, 0..longest),
        1 => prop::collection::vec(any::<u8>(), 0..longest),
    ]
}

proptest! {
    #[test]
    fn any_value_round_trips_with_any_table(
        width in WIDTHS,
        texts in prop::collection::vec(text(SYMBOL_MAX + 1), 0..300),
        values in prop::collection::vec(text(1200), 1..6),
    ) {
        let symbols = table(width, &texts);
        for value in &values {
            check(&symbols, value);
        }
        for text in &texts {
            check(&symbols, text);
        }
    }

    #[test]
    fn a_stored_table_is_read_unchanged(width in WIDTHS, texts in prop::collection::vec(text(SYMBOL_MAX + 1), 0..300), behind in text(20)) {
        let symbols = table(width, &texts);
        let mut bytes = Vec::new();
        symbols.put(&mut bytes);
        let stored = bytes.clone();
        prop_assert_eq!(stored.len(), symbols.stored_len());
        bytes.extend(behind);
        let (again, used) = Symbols::take(&bytes).expect("reads the stored table");
        prop_assert_eq!(used, stored.len());
        prop_assert_eq!((again.width, &again.table, &again.stored), (symbols.width, &symbols.table, &symbols.stored));
        prop_assert!(Symbols::take(&stored[..stored.len() - 1]).is_none());
    }

    #[test]
    fn damaged_tables_are_read_without_a_panic(
        width in WIDTHS,
        texts in prop::collection::vec(text(SYMBOL_MAX + 1), 0..100),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..200),
        codes in prop::collection::vec(any::<u16>(), 0..100),
        room in 0usize..600,
        value in text(100),
    ) {
        let mut bytes = Vec::new();
        table(width, &texts).put(&mut bytes);
        for (at, byte) in mutations {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut header = vec![width as u8, noise.len() as u8, 0, 0];
        header.extend(&noise);
        for bytes in [bytes, noise, header] {
            let Some((symbols, used)) = Symbols::take(&bytes) else { continue };
            prop_assert!(used <= bytes.len());
            prop_assert!(symbols.count() < 1 << symbols.width());
            let codes: Vec<u16> = codes.iter().map(|c| c & ((1 << symbols.width()) - 1)).collect();
            let mut out = vec![0; room];
            if let Some(end) = decode(&symbols, &codes, &mut out, room / 3) {
                prop_assert!(end <= room);
            }
            check(&symbols, &value);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn values_round_trip_with_the_table_trained_on_them(values in prop::collection::vec(text(200), 0..60), copies in 1u64..100) {
        let total: usize = values.iter().map(Vec::len).sum();
        if let Some(symbols) = Symbols::train(&slices(&values), total as u64 * copies) {
            for value in &values {
                check(&symbols, value);
            }
        }
    }
}

fn stored_bits(symbols: &Symbols, values: &[Vec<u8>]) -> usize {
    let mut codes = Vec::new();
    for value in values {
        symbols.encode(value, &mut codes);
    }
    codes.len() * symbols.width() as usize
}

#[test]
fn text_is_compressed_and_training_is_deterministic() {
    let (learned, others) = (sentences(3000, 1), sentences(3000, 2));
    let usable = 10_000_000;
    let symbols = Symbols::train(&slices(&learned), usable).expect("a table pays");
    let again = Symbols::train(&slices(&learned), usable).expect("a table pays");
    assert_eq!((symbols.width, &symbols.table), (again.width, &again.table));
    let bytes: usize = others.iter().map(Vec::len).sum();
    let bits = stored_bits(&symbols, &others);
    assert!(bits < bytes, "{bits} bits for {bytes} bytes: {symbols:?}");
    for value in &others {
        check(&symbols, value);
    }
    check(&symbols, &others.concat());
    check(&symbols, &noise(100).concat());
}

#[test]
fn little_text_gets_a_small_table() {
    let values = sentences(100, 3);
    let bytes: usize = values.iter().map(Vec::len).sum();
    let small = Symbols::train(&slices(&values), bytes as u64).expect("a table pays");
    let large = Symbols::train(&slices(&values), 1000 * bytes as u64).expect("a table pays");
    assert!(small.stored_len() < large.stored_len());
    assert!(
        small.stored_len() * 8 + stored_bits(&small, &values) < bytes * 4,
        "{small:?} for {bytes}"
    );
}

#[test]
fn no_table_is_made_if_it_does_not_pay() {
    assert!(Symbols::train(&[], 1000).is_none());
    assert!(Symbols::train(&[b"", b""], 1000).is_none());
    assert!(Symbols::train(&[b"a few bytes"], 11).is_none());
    assert!(Symbols::train(&slices(&noise(2000)), 60_000).is_none());
    assert!(Symbols::train(&slices(&noise(2000)), 60_000_000).is_none());
}

#[test]
fn an_unknown_code_is_refused() {
    let symbols = table(8, &[b"ab".to_vec(), b"abc".to_vec()]);
    let mut out = [0; 64];
    assert_eq!(decode(&symbols, &[1, 2, 0, 255], &mut out, 0), Some(6));
    assert_eq!(&out[..6], b"ababc\xff");
    assert_eq!(decode(&symbols, &[3], &mut out, 0), None);
    assert_eq!(
        decode(&symbols, &[1, 0], &mut out, 0),
        None,
        "an escape without its byte"
    );
    assert_eq!(decode(&symbols, &[1], &mut out, 65), None, "outside");
}

#[test]
fn empty_and_full_tables_round_trip() {
    check(&table(8, &[]), b"only escapes");
    let all: Vec<Vec<u8>> = (0..20_000u16).map(|n| n.to_be_bytes().to_vec()).collect();
    let symbols = table(13, &all);
    assert_eq!(symbols.count(), (1 << 13) - 1);
    check(&symbols, &all.concat());
    let bytes: Vec<Vec<u8>> = (0..=255u8).map(|b| vec![b]).collect();
    let symbols = table(9, &bytes);
    assert_eq!(symbols.count(), 256);
    check(&symbols, &bytes.concat());
}

proptest! {
    #[test]
    fn symbols_compare_like_their_texts(a in prop::collection::vec(0u8..3, 0..6), b in prop::collection::vec(0u8..3, 0..6)) {
        let (x, y) = (Symbol::new(&a).expect("short"), Symbol::new(&b).expect("short"));
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        let joined = x.join(&y).expect("short");
        prop_assert_eq!(joined.text(), [a, b].concat());
    }
}

#[test]
fn longer_texts_are_no_symbols() {
    assert_eq!(
        Symbol::new(&[7; SYMBOL_MAX]).map(|s| s.len()),
        Some(SYMBOL_MAX)
    );
    assert_eq!(Symbol::new(&[7; SYMBOL_MAX + 1]), None);
    let half = Symbol::new(&[7; SYMBOL_MAX / 2 + 1]).expect("short");
    assert_eq!(half.join(&half), None);
}

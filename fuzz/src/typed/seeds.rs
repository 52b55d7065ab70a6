//! Valid inputs of each target.

use super::{ANCHORS, PAGE_STREAMS, RELATED, STREAM, WIDTHS, form_streams};
use crate::sample::{self, Tidy};
use crate::target::Seeds;
use densite_sqlite_format::page::{Kind, Page};
use densite_typed::layout;
use densite_typed::symbols::Symbols;
use densite_typed::{Model, PageContext};

/// Where the pages are in their database.
const CONTEXT: PageContext = PageContext {
    number: 3,
    pages: 90,
    reserved: 0,
};

fn mixed_model() -> Vec<u8> {
    sample::model_of((0..20).map(|i| sample::mixed(2048, Tidy::Yes, i)))
}

fn long_model() -> Vec<u8> {
    sample::model_of((0..20).map(|i| sample::long(4096, Kind::TableLeaf, Tidy::Yes, i)))
}

fn repeated_model() -> Vec<u8> {
    sample::model_of((0..40).map(|i| sample::repeated(4096, Tidy::Yes, i)))
}

fn vectors_model() -> Vec<u8> {
    sample::model_of((0..40).map(|i| sample::vectors(4096, Tidy::Yes, i)))
}

/// Pages of each kind.
fn btree_pages() -> Seeds {
    let len = 1024;
    vec![
        ("rows", sample::rows(len, false, Tidy::Yes, 3)),
        ("rows-untidy", sample::rows(2048, false, Tidy::No, 3)),
        ("first", sample::rows(len, true, Tidy::Yes, 3)),
        ("mixed", sample::mixed(len, Tidy::Yes, 4)),
        ("mixed-untidy", sample::mixed(len, Tidy::No, 4)),
        (
            "index-leaf",
            sample::keys(len, Kind::IndexLeaf, Tidy::No, 5),
        ),
        (
            "index-interior",
            sample::keys(len, Kind::IndexInterior, Tidy::Yes, 5),
        ),
        ("table-interior", sample::children(512, 6)),
        ("repeated", sample::repeated(2048, Tidy::No, 6)),
        ("vectors", sample::vectors(2048, Tidy::No, 8)),
        ("reals", sample::reals(1024)),
        ("long", sample::long(4096, Kind::TableLeaf, Tidy::Yes, 7)),
        (
            "long-untidy",
            sample::long(4096, Kind::TableLeaf, Tidy::No, 7),
        ),
        (
            "long-keys",
            sample::long(4096, Kind::IndexInterior, Tidy::Yes, 7),
        ),
    ]
}

pub(super) fn btree() -> Seeds {
    let mut seeds: Seeds = btree_pages()
        .into_iter()
        .map(|(name, page)| {
            (
                name,
                [&[u8::from(name == "first"), 0, 0, 0], page.as_slice()].concat(),
            )
        })
        .collect();
    let mut parsed = Page::new();
    let untidy = sample::rows(4096, false, Tidy::No, 3);
    assert!(
        parsed.parse(&untidy, untidy.len(), false),
        "the sample is a page"
    );
    let mut w = densite_typed::bits::BitWriter::default();
    layout::put(&parsed.layout, &mut w);
    let cells = parsed.cells.len() as u16;
    let mut bits = vec![2, 0];
    bits.extend_from_slice(&cells.to_le_bytes());
    w.finish(&mut bits);
    seeds.push(("layout", bits));
    seeds
}

/// The bytes behind their length in three bytes.
fn with_length(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..3], bytes].concat()
}

pub(super) fn model() -> Seeds {
    let (rows, mixed, empty) = (
        sample::rows_model(),
        mixed_model(),
        Model::empty().to_bytes(),
    );
    let with = |model: &[u8], page: Vec<u8>| [with_length(model), page].concat();
    vec![
        (
            "rows",
            with(&rows, sample::rows(1024, false, Tidy::Yes, 70)),
        ),
        ("first", with(&rows, sample::rows(1024, true, Tidy::No, 70))),
        ("mixed", with(&mixed, sample::mixed(1024, Tidy::No, 70))),
        ("other", with(&rows, sample::mixed(1024, Tidy::Yes, 70))),
        (
            "index",
            with(&mixed, sample::keys(1024, Kind::IndexLeaf, Tidy::No, 70)),
        ),
        ("empty", with(&empty, sample::children(512, 70))),
        (
            "repeated",
            with(&repeated_model(), sample::repeated(2048, Tidy::No, 70)),
        ),
        (
            "vectors",
            with(&vectors_model(), sample::vectors(2048, Tidy::No, 70)),
        ),
        (
            "long",
            with(
                &long_model(),
                sample::long(4096, Kind::TableLeaf, Tidy::No, 70),
            ),
        ),
    ]
}

/// A model whose streams all have the same default parameters, and a page.
pub(super) fn defaults() -> Seeds {
    let of = |columns: &[u8], defaults: [u8; STREAM], page: Vec<u8>| {
        let more: usize = columns.iter().map(|c| form_streams(*c)).sum();
        let streams = PAGE_STREAMS + 5 * columns.len() + more;
        [
            &[columns.len() as u8],
            columns,
            &defaults.repeat(streams),
            &page,
        ]
        .concat()
    };
    let rows = sample::rows(1024, false, Tidy::Yes, 3);
    let long = sample::long(4096, Kind::TableLeaf, Tidy::Yes, 3);
    // Two columns of REALs. `related`: the second one as differences to the first one. No model may
    // relate them, because the bits of REALs are divided.
    let reals = |related: u8| {
        let mut reals = vec![2, 0, 0];
        let frame = [ANCHORS | WIDTHS, 0, 0, 0, 0, 0, 64, 0, 0];
        reals.extend(frame.repeat(PAGE_STREAMS));
        for stream in 0..10 {
            reals.extend(match stream {
                0 | 5 => [0, 0, 6, 0, 0, 0, 0, 0, 0],
                8 => {
                    let other = PAGE_STREAMS as u8 + 3;
                    [ANCHORS | WIDTHS | related, 0, 0, 0, 0, 0, 64, other, 0]
                }
                _ => frame,
            });
        }
        reals.extend(sample::reals(1024));
        reals
    };
    vec![
        ("reals", reals(0)),
        ("reals-related", reals(RELATED)),
        // Frames, for which the page has anchor and width; scale 2, dates, a dictionary.
        (
            "rows",
            of(
                &[0, 1 << 5, 2, 2 << 5, 0, 0, 0],
                [ANCHORS | WIDTHS, 0, 0, 0, 0, 0, 40, 0, 0],
                rows,
            ),
        ),
        // Deltas to the first stream.
        (
            "keys",
            of(
                &[1 << 5, 0],
                [1 | ANCHORS | WIDTHS | RELATED, 0, 0, 0, 0, 0, 64, 0, 0],
                sample::keys(1024, Kind::IndexInterior, Tidy::No, 3),
            ),
        ),
        // Runs.
        (
            "mixed",
            of(
                &[0, 0],
                [3 | ANCHORS | WIDTHS, 0, 0, 0, 1, 3, 64, 0, 0],
                sample::mixed(1024, Tidy::No, 3),
            ),
        ),
        // Repeated text, and ramps.
        (
            "repeated",
            of(
                &[3 << 5, 0],
                [4 | ANCHORS | WIDTHS, 0, 0, 0, 0, 5, 64, 0, 20],
                sample::repeated(2048, Tidy::No, 3),
            ),
        ),
        (
            "vectors",
            of(
                &[0, 4 << 5],
                [ANCHORS | WIDTHS, 0, 0, 0, 0, 0, 64, 0, 0],
                sample::vectors(2048, Tidy::No, 3),
            ),
        ),
        (
            "doubles",
            of(
                &[0, 5 << 5],
                [ANCHORS | WIDTHS, 0, 0, 0, 0, 0, 64, 0, 0],
                sample::vectors(2048, Tidy::Yes, 4),
            ),
        ),
        (
            "long",
            of(
                &[0, 0, 0, 0],
                [ANCHORS | WIDTHS, 0, 0, 0, 0, 0, 40, 0, 0],
                long,
            ),
        ),
        (
            "none",
            of(
                &[],
                [ANCHORS, 20, 0, 0, 0, 0, 20, 0, 0],
                sample::children(512, 3),
            ),
        ),
    ]
}

pub(super) fn typed() -> Seeds {
    let mut seeds = Seeds::new();
    let (rows, mixed, empty) = (
        sample::rows_model(),
        mixed_model(),
        Model::empty().to_bytes(),
    );
    for (name, page) in btree_pages() {
        let mut of = |name, model: &[u8]| {
            let context = PageContext {
                number: if name == "first" { 1 } else { 3 },
                ..CONTEXT
            };
            let learned = Model::from_bytes(model).expect("a learned model is read");
            let (mut kept, mut payload) = (Vec::new(), Vec::new());
            let coded = densite_typed::encode(&page, &context, &learned, &mut kept, &mut payload);
            assert!(coded, "the sample {name} is no page");
            let size = [(page.len() / 512).trailing_zeros() as u8];
            seeds.push((
                name,
                [&size, with_length(model).as_slice(), &payload].concat(),
            ));
        };
        match name {
            "rows" => {
                of("rows-model", &rows);
                of("rows-other", &mixed);
            }
            "rows-untidy" => of("untidy-model", &rows),
            "mixed" => of("mixed-model", &mixed),
            "long" => of("long-model", &long_model()),
            "long-keys" => of("keys-model", &long_model()),
            "repeated" => of("repeated-model", &repeated_model()),
            "vectors" => of("vectors-model", &vectors_model()),
            _ => {}
        }
        of(name, &empty);
    }
    seeds
}

pub(super) fn symbols() -> Seeds {
    let text = b"carefully ironic deposits sleep furiously above the packages";
    let texts: Vec<Vec<u8>> = (0..400u32)
        .map(|i| {
            let from = (i as usize * 7) % 30;
            [
                &text[from..from + 12 + i as usize % 18],
                i.to_string().as_bytes(),
            ]
            .concat()
        })
        .collect();
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let of = |texts: &[&[u8]], usable| {
        let mut out = Vec::new();
        let table = Symbols::train(texts, usable).expect("a table of symbols is trained");
        table.put(&mut out);
        out.extend_from_slice(b"deposits sleep ironically. \xff\x00 above ");
        out
    };
    vec![
        ("words", of(&texts, 16 << 20)),
        ("few", of(&texts[..60], 1 << 14)),
        // The narrowest codes and no symbols, so each byte takes three codes.
        ("none", vec![4, 0, 0, 0, b'a', 200, 0, b'c']),
    ]
}

pub(super) fn postings() -> Seeds {
    let of = |page: Vec<u8>| {
        let log2 = (page.len() / 512).trailing_zeros() as u8;
        let mut payload = Vec::new();
        let coded = densite_typed::postings::encode(&page, &mut payload);
        assert!(coded, "the sample is a page of postings");
        [
            [&[log2], page.as_slice()].concat(),
            [&[log2 | 128], payload.as_slice()].concat(),
        ]
    };
    let [page, payload] = of(sample::postings(1024, 3));
    let [other, large] = of(sample::postings(4096, 4));
    vec![
        ("page", page),
        ("payload", payload),
        ("large-page", other),
        ("large-payload", large),
    ]
}

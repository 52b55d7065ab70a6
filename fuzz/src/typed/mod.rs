//! The typed codec: pages, layouts, models, symbol tables, payloads; postings.

mod fields;
mod repair;
mod seeds;

use crate::target::{Target, no_repair};
use densite_sqlite_format::header::is_sqlite;
use densite_sqlite_format::page::{Layout, Page};
use densite_typed::bits::{BitReader, BitWriter, PADDING};
use densite_typed::ints::Shape;
use densite_typed::layout::{self as coding, LayoutReader};
use densite_typed::symbols::{Codes, Symbols};
use densite_typed::{Model, PageContext, decode, encode, postings as codec, scrub};

/// The targets of the typed codec.
pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "btree",
        run: btree,
        repair: repair::btree,
        fields: fields::btree,
        seeds: seeds::btree,
    },
    Target {
        name: "model",
        run: model,
        repair: no_repair,
        fields: fields::model,
        seeds: seeds::model,
    },
    Target {
        name: "defaults",
        run: defaults,
        repair: no_repair,
        fields: fields::defaults,
        seeds: seeds::defaults,
    },
    Target {
        name: "typed",
        run: typed,
        repair: no_repair,
        fields: fields::typed,
        seeds: seeds::typed,
    },
    Target {
        name: "symbols",
        run: symbols,
        repair: no_repair,
        fields: fields::symbols,
        seeds: seeds::symbols,
    },
    Target {
        name: "postings",
        run: postings,
        repair: no_repair,
        fields: fields::postings,
        seeds: seeds::postings,
    },
];

/// The most bytes of a page.
const PAGE_MAX: usize = 65_536;

/// The input: flags (1: page 1; 2: the bits of a layout instead of a page), reserved bytes, cells
/// (2 bytes), page or bits.
///
/// Invariants: a well-formed page follows from its cells, sizes and layout, without its unallocated
/// bytes. A layout that is read is written to bits that are read as the same. If cells in this
/// layout are a well-formed page, the page has this layout.
fn btree(bytes: &[u8]) -> u64 {
    let [flags, reserved, lo, hi, rest @ ..] = bytes else {
        return 0;
    };
    let first = flags & 1 != 0;
    if flags & 2 != 0 {
        return layout(rest, usize::from(u16::from_le_bytes([*lo, *hi])));
    }
    let rest = &rest[..rest.len().min(PAGE_MAX)];
    let Some(usable) = rest.len().checked_sub(usize::from(*reserved)) else {
        return 0;
    };
    let mut page = Page::new();
    let fits = page.parse(rest, usable, first);
    let mut again = Page::new();
    assert_eq!(again.parse(rest, usable, first), fits);
    assert_eq!(again.cells, page.cells);
    if !fits {
        assert!(page.cells.is_empty());
        return 1;
    }
    let scrubbed = scrubbed(rest, &page);
    let header_len = page.kind.header_len();
    let (packed, sizes) = pack(rest, &page, usable);
    let layout = put_and_take(&page.layout, sizes.len(), usable);
    for layout in [&page.layout, &layout] {
        let mut out = scrubbed[..page.header_at + header_len].to_vec();
        out.resize(rest.len(), 0xA5);
        out[usable..].copy_from_slice(&rest[usable..]);
        layout
            .scatter(
                &packed,
                &sizes,
                page.header_at,
                header_len,
                usable,
                &mut out,
            )
            .expect("the layout of a page");
        // A small cell is filled up to four bytes. These bytes are scrubbed with the page.
        assert!(again.parse(&out, usable, first), "the result is no page");
        assert!(self::scrubbed(&out, &again) == scrubbed, "another page");
    }
    let (items, cells) = (!page.layout.is_canonical(), page.cells.len());
    2 + u64::from(page.kind as u8) * 64 + 2048 * u64::from(items) + log2(cells) * 4096
}

fn log2(n: usize) -> u64 {
    n.checked_ilog2().map_or(0, u64::from)
}

/// A page without its unallocated bytes.
fn scrubbed(bytes: &[u8], page: &Page) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut behind = 0;
    page.unallocated(|from, to| {
        assert!(behind <= from && from < to, "regions in order");
        behind = to;
        out[from..to].fill(0);
    });
    out
}

/// A page's cells back to back from the usable end downwards, and their sizes.
fn pack(bytes: &[u8], page: &Page, usable: usize) -> (Vec<u8>, Vec<u32>) {
    let mut packed = vec![0; usable];
    let mut at = usable;
    let sizes: Vec<u32> = page.cells.iter().map(|c| c.size).collect();
    for cell in &page.cells {
        let (from, to) = (cell.start as usize, cell.end() as usize);
        at -= to - from;
        packed[at..at + (to - from)].copy_from_slice(&bytes[from..to]);
    }
    (packed, sizes)
}

/// The layout, written and read again.
fn put_and_take(layout: &Layout, cells: usize, usable: usize) -> Layout {
    let bits = |layout: &Layout| {
        let mut w = BitWriter::default();
        coding::put(layout, &mut w);
        let mut bits = Vec::new();
        w.finish(&mut bits);
        bits.extend([0xFF; PADDING]);
        bits
    };
    let before = bits(layout);
    let again = take(&before, cells, usable).expect("a written layout is read");
    assert_eq!(bits(&again), before);
    again
}

/// Reads a layout. What is refused is canonical.
fn take(bits: &[u8], cells: usize, usable: usize) -> Option<Layout> {
    let (mut layout, mut r) = (Layout::default(), BitReader::new(bits));
    let taken = LayoutReader::default().take(&mut r, cells, usable, &mut layout);
    assert!(taken.is_some() || layout.is_canonical());
    taken.map(|()| layout)
}

fn layout(bits: &[u8], cells: usize) -> u64 {
    let usable = 4096;
    let padded = [bits, &[0; PADDING]].concat();
    let Some(layout) = take(&padded, cells, usable) else {
        return 1 << 20;
    };
    // Cells of a table leaf, of 5 to 8 bytes.
    let mut packed = vec![0; usable];
    let mut sizes = Vec::with_capacity(cells);
    let mut at = usable;
    for i in 0..cells {
        let size = 5 + i % 4;
        sizes.push(size as u32);
        let Some(start) = at.checked_sub(size) else {
            break;
        };
        packed[start..at].fill(i as u8);
        packed[start] = size as u8 - 2;
        packed[start + 1] = i as u8 & 0x7F;
        at = start;
    }
    sizes.resize(cells, 5);
    let lay = |layout: &Layout, fill: u8| {
        let mut out = vec![fill; usable];
        out[0] = 13;
        layout
            .scatter(&packed, &sizes, 0, 8, usable, &mut out)
            .map(|()| out)
    };
    let again = match lay(&layout, 0xA5) {
        // A layout that fits no page can be written in more than one way.
        None => return 2 << 20,
        Some(_) if layout.is_canonical() => return 3 << 20,
        Some(out) => {
            assert_eq!(
                lay(&layout, 0x5A).as_ref(),
                Some(&out),
                "bytes that no cell covers"
            );
            out
        }
    };
    let mut page = Page::new();
    if !page.parse(&again, usable, false) {
        return 4 << 20;
    }
    let taken = put_and_take(&page.layout, cells, usable);
    assert_eq!(lay(&taken, 0).as_ref(), Some(&again), "another layout");
    (5 << 20) + log2(cells)
}

/// The part whose length is in the first three bytes, and the bytes behind it.
fn halves(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let ([lo, mid, hi], rest) = bytes.split_first_chunk()?;
    let len = u32::from_le_bytes([*lo, *mid, *hi, 0]) as usize;
    Some(rest.split_at(len.min(rest.len())))
}

/// The input: length of a model (3 bytes), model, page.
///
/// Invariants: a model that is read is written to bytes that are read as the same model. A page is
/// encoded with it if and only if it is encoded without it. The page round-trips. Its number
/// determines whether its unallocated bytes do, too.
fn model(bytes: &[u8]) -> u64 {
    let Some((model, page)) = halves(bytes) else {
        return 0;
    };
    let Some(model) = Model::from_bytes(model) else {
        return 1;
    };
    let stored = model.to_bytes();
    let again = Model::from_bytes(&stored).expect("a written model is read");
    assert_eq!(again.to_bytes(), stored);
    assert_eq!(again.describe(), model.describe());
    let page = &page[..page.len().min(PAGE_MAX)];
    let coded = round_trip(page, &model);
    // Lengths are rounded: that of a text differs with every change of a symbol table.
    2 + coded.map_or(0, |len| 1 + len as u64 / 64) + 4096 * log2(stored.len())
}

/// Bytes of a column and of a stream in the input of [`defaults`].
const COLUMN: usize = 1;
const STREAM: usize = 9;
/// The first byte of a stream: its shape; whether pages have anchors, and widths, of their own;
/// whether it is related.
const SHAPE: u8 = 7;
const ANCHORS: u8 = 8;
const WIDTHS: u8 = 16;
const RELATED: u8 = 32;
/// Streams of a page without columns.
const PAGE_STREAMS: usize = 9;

/// The form of a column. Several numbers stand for vectors, of each kind.
fn form_of(column: u8) -> u8 {
    (column >> 5).min(4)
}

fn form_streams(column: u8) -> usize {
    match form_of(column) {
        0 => 0,
        4 => 4,
        _ => 1,
    }
}

/// The input: number of columns; a byte for each column (scale in 5 bits, form in 3); nine bytes for
/// each stream (shape in 3 bits and which parameters are given, width, anchor, step, and so on);
/// page. These bytes give the parameters of a model, so that mutants of them are models.
///
/// Invariants: those of [`model`].
fn defaults(bytes: &[u8]) -> u64 {
    let [count, rest @ ..] = bytes else { return 0 };
    let (columns, rest) = rest.split_at(usize::from(count % 9).min(rest.len()) * COLUMN);
    let streams = PAGE_STREAMS + columns.iter().map(|c| 5 + form_streams(*c)).sum::<usize>();
    let (defaults, page) = rest.split_at((streams * STREAM).min(rest.len()));
    let mut w = BitWriter::default();
    w.put(columns.len() as u64, 16);
    let mut forms = Vec::new();
    for column in columns {
        w.put(u64::from(column & 0x1F), 5);
        w.put(u64::from(form_of(*column)), 3);
        w.put(0, 1);
        match form_of(*column) {
            1 => forms.extend([1, 4, b'-']),
            2 => {
                forms.extend(3u32.to_le_bytes());
                for value in ["filled", "open", "x"] {
                    forms.extend((value.len() as u16).to_le_bytes());
                    forms.extend(value.as_bytes());
                }
            }
            4 => forms.push(if column >> 5 > 4 { 8 } else { 4 }),
            _ => {}
        }
    }
    for i in 0..streams {
        let of = |at: usize| defaults.get(i * STREAM + at).copied().unwrap_or(0);
        let flags = of(0);
        let shape = u64::from(flags & SHAPE);
        w.put(shape, 3);
        w.put(u64::from(of(1) % 65), 7);
        number(of(2), of(3), &mut w);
        if shape != Shape::Frame as u64 {
            number(of(4), 0, &mut w);
        }
        let (runs, ramps) = (Shape::Runs as u64, Shape::Ramps as u64);
        if shape == Shape::Curve as u64 || shape == ramps {
            number(of(4), 0, &mut w);
        }
        if shape == runs || shape == ramps {
            w.put(u64::from(of(5) % 32), 5);
        }
        if shape == ramps {
            w.put(u64::from(of(8) % 65), 7);
        }
        w.put(u64::from(flags & ANCHORS != 0), 1);
        if flags & ANCHORS != 0 {
            w.put(u64::from(of(6) % 65), 7);
        }
        w.put(u64::from(flags & WIDTHS != 0), 1);
        w.put(u64::from(flags & RELATED != 0), 1);
        if flags & RELATED != 0 {
            w.put(u64::from(of(7)), 16);
        }
    }
    let mut bits = Vec::new();
    w.finish(&mut bits);
    let stored = [&[3], &(bits.len() as u32).to_le_bytes()[..3], &bits, &forms].concat();
    let Some(model) = Model::from_bytes(&stored) else {
        return 1;
    };
    assert_eq!(model.to_bytes(), stored);
    let page = &page[..page.len().min(PAGE_MAX)];
    let len = round_trip(page, &model);
    2 + len.map_or(0, |len| 1 + len as u64 / 64)
}

/// Writes a number as a model has it: zigzag coded, behind its width. It is shifted, so that there
/// are large numbers.
fn number(low: u8, shift: u8, w: &mut BitWriter) {
    let value = u64::from(low) << (shift % 57);
    let width = 64 - value.leading_zeros();
    w.put(u64::from(width), 7);
    w.put(value, width);
}

/// Encodes and decodes `page` under several page numbers. Returns the bytes that it takes.
fn round_trip(page: &[u8], model: &Model) -> Option<usize> {
    let first = is_sqlite(page);
    let mut len = None;
    // Page 2 can be a pointer map, so it is not scrubbed. Nor is a page with reserved bytes.
    for (number, reserved) in [(3, 0), (2, 0), (3, 7)] {
        let context = PageContext {
            number: if first { 1 } else { number },
            pages: 9,
            reserved,
        };
        let mut expected = Vec::new();
        scrub(page, &context, &mut expected);
        let (mut kept, mut payload) = (Vec::new(), b"before".to_vec());
        let coded = encode(page, &context, model, &mut kept, &mut payload);
        assert!(payload.starts_with(b"before"));
        let payload = &payload[6..];
        if coded {
            assert!(kept == expected, "another page was encoded");
            let mut out = vec![0xEE; page.len()];
            decode(payload, model, &mut out).expect("an encoded page is decoded");
            assert!(out == expected, "a decoded page differs");
            len = Some(payload.len());
        } else {
            assert!(payload.is_empty());
        }
        let (mut kept, mut payload) = (Vec::new(), Vec::new());
        let without = encode(page, &context, &Model::empty(), &mut kept, &mut payload);
        assert_eq!(coded, without, "whether it is encoded depends on the model");
    }
    len
}

/// The input: size, length of a model (3 bytes), model, payload. The low 3 bits of the size are
/// log2 of the page's length, less 9. The other bits are bytes that the page lacks to that length.
///
/// Invariants: the result is an error or a page. It depends neither on the bytes in the buffer nor
/// on pages that were decoded before. A page of SQLite round-trips with the model and without it.
fn typed(bytes: &[u8]) -> u64 {
    let [size, rest @ ..] = bytes else { return 0 };
    let len = (512usize << (size % 8)) - usize::from(size / 8);
    let Some((model, payload)) = halves(rest) else {
        return 0;
    };
    let Some(model) = Model::from_bytes(model) else {
        return 1;
    };
    let (mut a, mut b) = (vec![0xAA; len], vec![0x55; len]);
    let first = decode(payload, &model, &mut a);
    // The streams and texts of another page stay in the decoder's memory.
    let _ = decode(&[0xFF; 300], &model, &mut vec![0; 4096]);
    let second = decode(payload, &model, &mut b);
    assert_eq!(first, second);
    let other = std::thread::scope(|s| {
        s.spawn(|| decode(payload, &model, &mut vec![0; len]))
            .join()
    });
    assert!(other.is_ok_and(|other| other == first), "another thread");
    if first.is_err() {
        return 2;
    }
    assert!(a == b, "the page depends on the buffer");
    let coded = round_trip(&a, &model);
    round_trip(&a, &Model::empty());
    let head = payload
        .first_chunk()
        .map_or(0, |head| u64::from(u16::from_le_bytes(*head) & 0x7FF));
    3 + head * 16 + 2 * u64::from(coded.is_some()) + u64::from(len > 4096)
}

/// The input: a table of symbols, then text.
///
/// Invariants: a table that is read is written to the same bytes. Text is decoded from its codes,
/// if there is room for it. Any bytes are decoded or refused.
fn symbols(bytes: &[u8]) -> u64 {
    let Some((symbols, len)) = Symbols::take(bytes) else {
        return 0;
    };
    let mut stored = Vec::new();
    symbols.put(&mut stored);
    assert_eq!(stored, bytes[..len]);
    assert_eq!(stored.len(), symbols.stored_len());
    let text = &bytes[len..];
    let mut codes = Vec::new();
    symbols.encode(text, &mut codes);
    let mut w = BitWriter::default();
    for code in &codes {
        w.put(u64::from(*code), symbols.width());
    }
    let mut bits = Vec::new();
    w.finish(&mut bits);
    bits.extend([0xFF; PADDING]);
    let take = |codes: usize, out: &mut [u8]| {
        let mut reader = BitReader::new(&bits);
        let mut run = reader.run(codes, symbols.width())?;
        let mut decoded = Codes::default();
        symbols.decode(&mut run, codes, &mut decoded, out, 0)?;
        decoded.end(codes)
    };
    // With room behind the text, and without.
    for room in [0, 64] {
        let mut out = vec![0xA5; text.len() + room];
        assert_eq!(take(codes.len(), &mut out), Some(text.len()));
        assert!(&out[..text.len()] == text, "another text");
    }
    if let Some(less) = text.len().checked_sub(1) {
        assert_eq!(take(codes.len(), &mut vec![0; less]), None);
    }
    // The text's own bytes as codes.
    let padded = [text, &[0; PADDING]].concat();
    let all = text.len() * 8 / symbols.width() as usize;
    let mut reader = BitReader::new(&padded);
    let decoded = reader.run(all, symbols.width()).and_then(|mut run| {
        let (mut codes, mut out) = (Codes::default(), vec![0; 4096]);
        symbols.decode(&mut run, all, &mut codes, &mut out, 0)
    });
    1 + log2(symbols.count()) * 64 + 4 * u64::from(symbols.width()) + u64::from(decoded.is_some())
}

/// The input: size, then a page, or with 128 in the size a payload. The low 3 bits of the size are
/// log2 of the page's length, less 9. The other bits are bytes that the page lacks to that length.
///
/// Invariants: a page is refused or round-trips. A payload is refused or is that of a page, which
/// does not depend on the bytes in the buffer, and such a page round-trips.
fn postings(bytes: &[u8]) -> u64 {
    let [size, rest @ ..] = bytes else { return 0 };
    if size & 128 == 0 {
        return 1 + postings_round_trip(&rest[..rest.len().min(PAGE_MAX)]);
    }
    let len = (512usize << (size % 8)) - usize::from((size & 127) / 8);
    let (mut a, mut b) = (vec![0xAA; len], vec![0x55; len]);
    let first = codec::decode(rest, &mut a);
    assert_eq!(first, codec::decode(rest, &mut b));
    if first.is_err() {
        return 0;
    }
    assert!(a == b, "the page depends on the buffer");
    1000 + postings_round_trip(&a)
}

fn postings_round_trip(page: &[u8]) -> u64 {
    let mut payload = Vec::new();
    if !codec::encode(page, &mut payload) {
        assert!(payload.is_empty());
        return u64::from(codec::is_likely(page));
    }
    let mut out = vec![0xEE; page.len()];
    codec::decode(&payload, &mut out).expect("an encoded page is decoded");
    assert!(out == page, "a decoded page differs");
    2 + log2(payload.len())
}

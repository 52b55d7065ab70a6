//! Pickles that Python writes (`tests/chroma/pickles/make.py`), and damaged ones.

use super::*;
use proptest::prelude::*;
use std::path::PathBuf;

fn fixture(name: &str) -> Vec<u8> {
    let path =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chroma/pickles")).join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn read(bytes: &[u8]) -> Result<IndexMetadata, PickleError> {
    IndexMetadata::read(bytes, bytes.len() as u64)
}

fn fails(bytes: &[u8], at: u64, why: &str) {
    let e = read(bytes).expect_err("it is none");
    assert!(e.what.contains(why), "{e}, not {why}");
    assert_eq!(e.offset, at, "{e}");
}

#[test]
fn every_protocol_is_read() {
    let ids = [
        "max_seq_id",
        "a'b\"c",
        "€ 😀",
        "ä",
        "line\nbreak",
        "back\\slash \\u0041",
        "id0",
        "id999",
        "id1009",
    ];
    let objects =
        (0..=5).map(|protocol| (format!("object-{protocol}.pickle"), Some(3_000_000_000)));
    for (name, max_seq_id) in objects.chain([("dict-3.pickle".to_string(), None)]) {
        let index = read(&fixture(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(index.max_seq_id, max_seq_id, "{name}");
        assert_eq!(index.records(), 1017, "{name}");
        for id in ids {
            assert!(index.holds(id.as_bytes()), "{name} has {id}");
        }
        assert!(index.holds("x".repeat(300).as_bytes()), "{name}");
        for id in ["id1010", "", "label_to_id"] {
            assert!(!index.holds(id.as_bytes()), "{name} has not {id}");
        }
    }
}

#[test]
fn pickles_that_call_something_are_refused() {
    // os.system, as Python pickles it.
    fails(&fixture("call.pickle"), 28, "a class that is not Chroma's");
    fails(
        b"cposix\nsystem\n(S'true'\ntR.",
        0,
        "class posix.system is not",
    );
    fails(b"\x80\x02cos\nsystem\nq\x00.", 2, "class os.system is not");
    // INST, OBJ, an extension code, a persistent id and a buffer.
    for code in [b'i', b'o', 0x82, b'P', b'Q', 0x97, 0x92] {
        fails(&[0x80, 4, code, 0, 0], 2, "do not have the instruction");
    }
    // Known classes, but in a call of another form.
    let module = "chromadb.segment.impl.vector.local_persistent_hnsw";
    let call = format!("c{module}\nPersistentData\n)R.");
    fails(
        call.as_bytes(),
        call.len() as u64 - 2,
        "a call that Chroma's pickles",
    );
    fails(
        b"ccopy_reg\n_reconstructor\n)R.",
        26,
        "a call that Chroma's pickles",
    );
}

#[test]
fn truncated_anywhere_is_refused() {
    for name in [
        "object-0.pickle",
        "object-2.pickle",
        "object-5.pickle",
        "dict-3.pickle",
    ] {
        let whole = fixture(name);
        for n in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
            let e = read(&whole[..n]).expect_err("a part of it is missing");
            assert!(e.offset <= n as u64, "{name} cut at {n}: {e}");
        }
        let mut longer = whole;
        longer.push(b'.');
        assert!(read(&longer).is_err(), "{name} with a byte too many");
    }
}

#[test]
fn pickles_of_other_objects_are_refused() {
    fails(b"", 0, "too early");
    fails(b".", 0, "not the pickle of an index");
    fails(b"N.", 1, "not the pickle of an index");
    fails(b"}.", 1, "no id_to_label");
    fails(b"}}.", 2, "not the pickle of an index");
    fails(b"}(.", 2, "not the pickle of an index");
    fails(b"\x80\x06.", 0, "protocol 6");
    fails(b"u.", 0, "a mark is missing");
    fails(b"(u.", 1, "entries without a dictionary");
    fails(b"}(K\x01u.", 4, "a key without a value");
    fails(b"}NNs.", 3, "neither text nor number");
    fails(b"s", 0, "stack is empty");
    fails(b"N(b", 2, "stack is empty");
    fails(b"h\x00.", 0, "not in its memo");
    fails(b"Nq\x01.", 1, "gap");
    fails(b"X\xff\xff\xff\xffa", 0, "longer than the file");
    fails(
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffa",
        0,
        "longer than the file",
    );
    fails(b"\x8b\xff\xff\xff\x7fa", 0, "longer than the file");
    fails(b"\x8a\x09123456789.", 0, "more than 64 bits");
    let text = |s: &str| [&[0x8c, s.len() as u8], s.as_bytes()].concat();
    let wrong = [
        &b"}"[..],
        &text("max_seq_id"),
        b"Vx\ns",
        &text("id_to_label"),
        b"}s.",
    ]
    .concat();
    fails(&wrong, wrong.len() as u64 - 1, "max_seq_id is not a number");
}

#[test]
fn a_position_before_the_first_is_none() {
    let pickle = b"}Vmax_seq_id\nI-1\nsVid_to_label\n}s.";
    assert_eq!(read(pickle).expect("an index").max_seq_id, None);
}

#[test]
fn memory_is_bounded_by_the_length() {
    // MEMOIZE is one byte, and so is NONE.
    let memo = [&b"N"[..], &[0x94; 5000]].concat();
    fails(&memo, 1 + 5001 / 8 + 64, "memo is too large");
    fails(&[b'N'; 70_000], 1 << 16, "stack is too large");
    fails(&[b'}'; 20], 16, "more dictionaries");
    fails(&[b'('; 20], 16, "too many marks");
    let long = [&b"V"[..], &[b'a'; (1 << 20) + 1], b"\n"].concat();
    fails(&long, 0, "longer than any");
    let e = IndexMetadata::read(&b"}."[..], LEN_MAX + 1).expect_err("too long");
    assert!(e.what.contains("are more than"), "{e}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
    }

    /// Bytes that are mostly valid instructions reach deeper code.
    #[test]
    fn any_instructions_are_read_or_refused(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            &b"}"[..], b"(", b"u", b"s", b"N", b"K\x01", b"M\x01\x00", b"J\x01\x00\x00\x00", b"\x8a\x01\x05", b"\x8c\x0bid_to_label",
            b"\x8c\x0amax_seq_id", b"\x8c\x02ab", b"X\x01\x00\x00\x00a", b"\x94", b"h\x00", b"q\x00", b")", b"t", b"\x81", b"b", b"d", b"R", b".",
            b"cchromadb.segment.impl.vector.local_persistent_hnsw\nPersistentData\n", b"ccopy_reg\n_reconstructor\n", b"c__builtin__\nobject\n",
        ]), 0..40)
    ) {
        let _ = read(&parts.concat());
    }

    /// A flipped byte causes an error or changes the values, but never a panic.
    #[test]
    fn damaged_pickles_are_read_or_refused(protocol in 0..=5, at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = fixture(&format!("object-{protocol}.pickle"));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(index) = read(&bytes) {
            prop_assert!(index.records() <= 1018);
        }
    }
}

//! Frames that were encoded for another state of a page or the database are not used.

use super::tests::{page, store};
use super::*;
use crate::codec::CodecId;
use crate::format::record::{Kind, Record};

/// Another process may have given the number of a dictionary to another one, if the commit that
/// named it here was never made.
#[test]
fn a_frame_of_another_dictionary_of_the_same_number_is_not_used() {
    let (_dir, mut handle, _preencoded) = store(1);
    handle.write_at(&page(7), 0).expect("writes");
    let set = handle.encode_settings().expect("settings");
    let with = |bytes: &[u8]| {
        let dict = Dictionary::new(5, CodecId::ZSTD_DICT, bytes.to_vec());
        EncodeSettings {
            dicts: Arc::new([(Family::OTHER, vec![Arc::new(dict)])].into()),
            ..set.clone()
        }
    };
    let frame = Frame {
        record: Record {
            model: 5,
            ..Record::plain(Kind::Frame, 1, 1)
        },
        payload: Vec::new(),
        seqs: vec![1],
        family: Family::of(&page(7)),
        hurried: false,
    };
    let preencoded = PreEncodedFrame::of(frame, &with(b"what one has learned"));
    assert!(preencoded.holds(&with(b"what one has learned")));
    assert!(!preencoded.holds(&with(b"what another has learned")));
    assert!(!preencoded.holds(&set));
}

/// Which bytes of a page are not stored depends on the possible length of the database, and on its
/// reserved bytes.
#[test]
fn a_frame_is_not_used_after_the_database_grew_much_or_reserves_other_bytes() {
    let (_dir, mut handle, _preencoded) = store(1);
    handle.write_at(&page(7), 0).expect("writes");
    let set = handle.encode_settings().expect("settings");
    let frame = Frame {
        record: Record::plain(Kind::Frame, 1, 1),
        payload: Vec::new(),
        seqs: vec![1],
        family: Family::OTHER,
        hurried: false,
    };
    let preencoded = PreEncodedFrame::of(frame, &set);
    let of = |pages: u32, reserved: usize| EncodeSettings {
        pages,
        reserved,
        ..set.clone()
    };
    assert!(preencoded.holds(&of(set.pages + (1 << 20), 0)));
    assert!(!preencoded.holds(&of(set.pages + (1 << 20) + 1, 0)));
    assert!(preencoded.holds(&of(1, 0)), "a shorter one keeps no more");
    assert!(!preencoded.holds(&of(set.pages, 12)));
}

/// A worker encodes a page while it is written to the WAL again: its frame is not that of the new
/// note.
#[test]
fn a_frame_of_a_page_noted_again_while_it_was_encoded_is_not_used() {
    let (_dir, mut handle, preencoded) = store(1);
    // No worker runs: the test does its work.
    preencoded.state.lock().running = true;
    for n in 1..=60 {
        preencoded.note(n, &page(n + 1000));
    }
    let work = preencoded.state.lock().next();
    let Some(Work::Encode(jobs, set)) = work else {
        panic!("nothing to encode")
    };
    let at_work: Vec<u32> = jobs.iter().map(|job| job.page).collect();
    let changed = at_work[0];
    preencoded.note(changed, &page(5000));
    let frames = encode_batch(jobs, &set);
    preencoded.state.lock().lay(frames, &set);
    for n in &at_work {
        let ready = preencoded.state.lock().pages[n].frame.is_some();
        assert_eq!(ready, *n != changed, "page {n}");
    }
    for n in 1..=60 {
        let content = if n == changed { 5000 } else { n + 1000 };
        let at = u64::from(n - 1) * 4096;
        handle.write_at(&page(content), at).expect("writes");
    }
    handle.publish().expect("publishes");
    for n in 1..=60 {
        let content = if n == changed { 5000 } else { n + 1000 };
        let mut read = vec![0; 4096];
        let at = u64::from(n - 1) * 4096;
        handle.read_at(&mut read, at).expect("reads");
        assert!(read == page(content), "page {n}");
    }
}

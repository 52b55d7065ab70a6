//! What was encoded for another moment is of no use.

use super::tests::{page, store};
use super::*;
use crate::codec::CodecId;
use crate::format::record::{Kind, Record};

/// Another process may have given the number of a dictionary whose commit was never made here.
#[test]
fn a_frame_of_another_dictionary_of_the_same_number_is_of_no_use() {
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
    };
    let preencoded = PreEncodedFrame::of(frame, &with(b"what one has learned"));
    assert!(preencoded.holds(&with(b"what one has learned")));
    assert!(!preencoded.holds(&with(b"what another has learned")));
    assert!(!preencoded.holds(&set));
}

/// Which bytes of a page are not stored depends on how long the database may be, and on what it leaves to others.
#[test]
fn a_frame_of_a_database_that_was_much_shorter_or_kept_other_bytes_is_of_no_use() {
    let (_dir, mut handle, _preencoded) = store(1);
    handle.write_at(&page(7), 0).expect("writes");
    let set = handle.encode_settings().expect("settings");
    let frame = Frame {
        record: Record::plain(Kind::Frame, 1, 1),
        payload: Vec::new(),
        seqs: vec![1],
        family: Family::OTHER,
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

/// A worker is at a page, and it is written to the WAL again: the frame that comes back is not that of what is noted now.
#[test]
fn a_frame_of_what_changed_while_it_was_encoded_is_of_no_use() {
    let (_dir, mut handle, preencoded) = store(1);
    // No worker is sent: the test is the worker.
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

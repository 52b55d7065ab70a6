//! Overflow pages of one chain share a frame (docs/decisions/overflow-chains.md): when they do, that
//! reading one brings the others, and what happens if one of them is written again.

use crate::common::frames::frames;

use densite_disk::{OpenMode, SyncKind};
use densite_sim_disk::SimDisk;
use densite_store::codec::CodecId;
use densite_store::{CodecChoice, FrameInfo, Handle, Options, ReclaimBudget};
use std::collections::BTreeMap;

const PATH: &str = "/a.db";
const REST: ReclaimBudget<'static> = ReclaimBudget {
    bytes: 1 << 20,
    dead_limit: 5,
    stop: &|| false,
};

fn open(disk: &SimDisk, codec: CodecChoice, run_pages: u32, threads: usize) -> Handle {
    let file = disk.open(PATH, OpenMode::Create).expect("open");
    disk.sync_dir("/").expect("sync dir");
    let options = Options {
        threads,
        run_pages,
        codec,
        ..Options::default()
    };
    Handle::open(Box::new(file), PATH, options).expect("open")
}

/// The text of page `number` behind its link.
fn text(number: u32, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut x = u64::from(number) | 1;
    while out.len() < len {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let word = (x >> 40) % 400;
        out.extend_from_slice(format!("word{:03} of {} ", word * word % 997, word % 7).as_bytes());
    }
    out.truncate(len);
    out
}

/// An overflow page that names `next`.
fn overflow(number: u32, next: u32, page_size: usize) -> Vec<u8> {
    [&next.to_be_bytes()[..], &text(number, page_size - 4)].concat()
}

/// A file of chains of these lengths, one behind the other from page 2 on.
fn store(handle: &mut Handle, page_size: usize, chains: &[u32]) -> Vec<Vec<u8>> {
    let mut model = vec![vec![0; page_size]];
    for &len in chains {
        for i in 1..=len {
            let number = model.len() as u32 + 1;
            let next = if i == len { 0 } else { number + 1 };
            model.push(overflow(number, next, page_size));
        }
    }
    for (page, bytes) in model.iter().enumerate().skip(1) {
        let at = (page * page_size) as u64;
        handle.write_at(bytes, at).expect("write");
    }
    handle.sync(SyncKind::Data).expect("sync");
    model
}

/// The lengths of the frames, in the order of their pages.
fn runs(handle: &mut Handle) -> Vec<u32> {
    let frames = frames(handle);
    let mut runs = Vec::new();
    let mut page = 2;
    while let Some(frame) = frames.get(&page) {
        runs.push(frame.run_pages);
        page += frame.run_pages;
    }
    runs
}

fn same(handle: &mut Handle, model: &[Vec<u8>]) {
    for (page, want) in model.iter().enumerate().skip(1) {
        let mut got = vec![0; want.len()];
        let at = (page * want.len()) as u64;
        handle.read_at(&mut got, at).expect("read");
        assert!(got == *want, "page {} differs", page + 1);
    }
    let report = handle.check(&mut |_, _| true).expect("check");
    assert_eq!(report.problems, vec![]);
}

#[test]
fn a_chain_is_stored_in_runs_that_do_not_reach_into_the_next_one() {
    for threads in [0, 2] {
        let disk = SimDisk::new(1);
        let mut handle = open(&disk, CodecChoice::Auto, 0, threads);
        let model = store(&mut handle, 4096, &[3, 1, 16, 2, 21]);
        let wanted = [2, 1, 1, 16, 2, 16, 4, 1];
        assert_eq!(runs(&mut handle), wanted, "{threads} threads");
        let linked = |f: &FrameInfo| f.codec == CodecId::LINKED;
        let frames = frames(&mut handle);
        assert!(frames.values().all(|f| (f.run_pages > 1) == linked(f)));
        same(&mut handle, &model);
        handle.close_clean().expect("close");
        same(&mut open(&disk, CodecChoice::Auto, 0, threads), &model);
    }
}

#[test]
fn a_run_has_64_kib_and_is_not_torn_where_a_batch_ends() {
    for (page_size, most) in [(512, 64), (1024, 64), (4096, 16), (16_384, 4), (65_536, 1)] {
        for threads in [0, 2] {
            let disk = SimDisk::new(1);
            let mut handle = open(&disk, CodecChoice::Auto, 0, threads);
            // Several batches. The first chain makes the second one begin at an odd place.
            let model = store(&mut handle, page_size, &[most / 2 + 1, most * 20]);
            let runs = runs(&mut handle);
            let long = runs.iter().filter(|run| **run == most).count();
            assert!(long >= 20, "{page_size} bytes: {runs:?}");
            same(&mut handle, &model);
        }
    }
}

#[test]
fn chains_share_no_frame_if_the_user_sets_its_pages_or_wants_no_compression() {
    for (codec, run_pages) in [(CodecChoice::Auto, 1), (CodecChoice::Raw, 0)] {
        let disk = SimDisk::new(1);
        let mut handle = open(&disk, codec, run_pages, 0);
        let model = store(&mut handle, 4096, &[8, 8]);
        assert_eq!(runs(&mut handle), [1; 16]);
        same(&mut handle, &model);
    }
}

#[test]
fn runs_make_the_file_smaller() {
    let bytes = [1, 0].map(|run_pages| {
        let disk = SimDisk::new(1);
        let mut handle = open(&disk, CodecChoice::Auto, run_pages, 0);
        store(&mut handle, 4096, &[7; 60]);
        handle.stats().expect("stats").frame_bytes
    });
    assert!(bytes[1] * 10 < bytes[0] * 9, "{bytes:?}");
}

#[test]
fn a_page_that_is_written_again_leaves_the_others_in_their_frame() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, CodecChoice::Auto, 0, 0);
    let mut model = store(&mut handle, 4096, &[16, 16]);
    let before = frames(&mut handle);
    let page = overflow(99, 6, 4096);
    handle.write_at(&page, 4 * 4096).expect("write");
    model[4] = page;
    handle.sync(SyncKind::Data).expect("sync");
    let after = frames(&mut handle);
    assert_eq!((after[&5].run_pages, after[&4].run_pages), (1, 16));
    let others = |frames: &BTreeMap<u32, FrameInfo>| -> Vec<(u32, u64)> {
        let others = frames.values().filter(|frame| frame.page != 5);
        others.map(|f| (f.run_pages, f.stored_bytes)).collect()
    };
    assert_eq!(others(&before), others(&after), "their frame stays");
    same(&mut handle, &model);

    // A quarter of the run is dead: reclamation gives the others frames of their own.
    for number in [6, 7, 8, 9u32] {
        let page = overflow(number + 200, number + 1, 4096);
        let at = u64::from(number - 1) * 4096;
        handle.write_at(&page, at).expect("write");
        model[number as usize - 1] = page;
        handle.sync(SyncKind::Data).expect("sync");
    }
    handle.reclaim(&REST).expect("reclaim");
    same(&mut handle, &model);
}

#[test]
fn pages_whose_links_lead_elsewhere_come_back() {
    let disk = SimDisk::new(1);
    let mut handle = open(&disk, CodecChoice::Archive, 32, 0);
    // An archive's runs take any adjacent pages.
    let links = |number: u32| match number % 5 {
        0 => 0,
        1 => number.wrapping_sub(1),
        2 => u32::MAX >> 8,
        _ => number + 1,
    };
    let model: Vec<Vec<u8>> = (1..200).map(|n| overflow(n, links(n), 4096)).collect();
    for (page, bytes) in model.iter().enumerate().skip(1) {
        let at = (page * 4096) as u64;
        handle.write_at(bytes, at).expect("write");
    }
    handle.sync(SyncKind::Data).expect("sync");
    assert!(
        frames(&mut handle)
            .values()
            .any(|f| f.codec == CodecId::LINKED && f.run_pages == 32)
    );
    same(&mut handle, &model);
}

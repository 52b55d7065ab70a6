use std::sync::Arc;

use super::super::family::Family;
use super::super::tests::page;
use super::super::{CodecId, Dictionary, encode};
use super::*;
use crate::CodecChoice;

const A: Family = Family(0x2003);
const B: Family = Family(0x2004);

/// An incompressible page.
fn noise(n: u64) -> Vec<u8> {
    let mut x = n;
    std::iter::repeat_with(|| {
        x = x
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (x >> 56) as u8
    })
    .take(4096)
    .collect()
}

/// Runs all due training jobs and installs their results, which it returns.
fn train_all(learner: &mut Learner, id: u32) -> Vec<(Family, Arc<Dictionary>)> {
    let mut out = Vec::new();
    while let Some(training_job) = learner.due() {
        for trained in training_job.train() {
            let dict = Arc::new(Dictionary::new(id, trained.codec, trained.bytes));
            learner.installed(trained.family, &dict);
            out.push((trained.family, dict));
        }
    }
    out
}

fn stored(pages: impl Iterator<Item = Vec<u8>>, dict: Option<&Dictionary>) -> usize {
    let mut out = Vec::new();
    for page in pages {
        encode(&page, 3, dict, CodecChoice::Auto, &mut out);
    }
    out.len()
}

#[test]
fn a_family_is_trained_when_enough_was_seen_and_again_when_it_has_grown() {
    let mut learner = Learner::new();
    let mut n = 0;
    let mut show = |learner: &mut Learner, pages: u64| {
        for _ in 0..pages {
            learner.observe(A, &page(n, 4096));
            n += 1;
        }
    };
    show(&mut learner, FIRST_PAGES - 1);
    assert!(learner.due().is_none(), "too few");
    show(&mut learner, 1);
    let training_job = learner.due_first().expect("enough");
    assert!(training_job.is_first());
    assert!(
        learner.due().is_none_or(|l| l.family == Family::OTHER),
        "not while the training_job exists"
    );
    let trained = training_job.train().pop().expect("the pages are alike");
    assert!(trained.bytes.len() <= DICTIONARY_BYTES.0);
    let dict = Arc::new(Dictionary::new(1, trained.codec, trained.bytes));
    learner.installed(A, &dict);
    let (with, without) = (
        stored((5000..5050).map(|n| page(n, 4096)), Some(&dict)),
        stored((5000..5050).map(|n| page(n, 4096)), None),
    );
    assert!(
        (with as f64) < without as f64 * 0.9,
        "{with} with the dictionary, {without} without"
    );

    show(&mut learner, FIRST_PAGES * 6);
    assert!(
        learner.due().is_none_or(|l| l.family == Family::OTHER),
        "not yet eight times as much"
    );
    show(&mut learner, FIRST_PAGES * 2);
    let training_job = learner
        .due()
        .expect("eight times as much, and twice the dictionary would pay");
    assert_eq!((training_job.family, training_job.is_first()), (A, false));
    assert!(training_job.max_bytes >= 2 * dict.bytes().len());
    // A training job without a result (here it is dropped) is not repeated at once.
    drop(training_job);
    assert!(learner.due().is_none());
}

#[test]
fn a_small_database_gets_small_dictionaries_however_often_it_is_rewritten() {
    let mut learner = Learner::new();
    learner.set_database_bytes(1 << 20);
    let mut bytes = Vec::new();
    for n in 0..20_000 {
        learner.observe(A, &page(n % 200, 4096));
        bytes.extend(
            train_all(&mut learner, 1)
                .iter()
                .map(|(_, d)| d.bytes().len()),
        );
    }
    assert!(
        !bytes.is_empty() && bytes.iter().sum::<usize>() <= 2 * 10_485,
        "{bytes:?}"
    );
}

#[test]
fn incompressible_pages_get_no_dictionary_and_few_training_jobs() {
    let mut learner = Learner::new();
    let mut training_jobs = 0;
    for n in 0..5000 {
        learner.observe(A, &noise(n));
        learner.coded(A, 4096, 4096);
        while let Some(training_job) = learner.due() {
            training_jobs += 1;
            assert_eq!(training_job.train(), vec![]);
        }
    }
    assert!(training_jobs <= 5, "{training_jobs}");
}

#[test]
fn rare_families_are_learned_together() {
    let mut learner = Learner::new();
    for n in 0..600 {
        // 60 families of 10 pages each, and one of its own.
        learner.observe(Family(0x2100 + (n % 60) as u16), &page(n, 4096));
        learner.observe(A, &page(10_000 + n, 4096));
    }
    let families: Vec<Family> = train_all(&mut learner, 1)
        .iter()
        .map(|(family, _)| *family)
        .collect();
    assert_eq!(families, [A, Family::OTHER], "OTHER last");
}

/// Two tables that begin to grow are rare at first. A dictionary for OTHER, trained on their pages,
/// would never be used.
#[test]
fn families_that_begin_to_grow_are_not_trained_as_other() {
    let mut learner = Learner::new();
    let mut trained = Vec::new();
    for n in 0..300 {
        for (family, start) in [(A, 0), (B, 70_000)] {
            learner.observe(family, &page(n + start, 4096));
            trained.extend(train_all(&mut learner, 1).iter().map(|(family, _)| *family));
        }
    }
    assert!(trained.contains(&A) && trained.contains(&B), "{trained:?}");
    assert!(!trained.contains(&Family::OTHER), "{trained:?}");
}

/// No time is spent on a dictionary if pages coded in one piece show that it cannot reach the
/// model.
#[test]
fn a_dictionary_is_tried_where_it_could_be_better_than_the_model() {
    let mut learner = Learner::new();
    for n in 0..FIRST_PAGES {
        learner.observe(A, &page(n, 4096));
    }
    let training_job = learner.due().expect("enough pages");
    let pages: Vec<Vec<u8>> = (0..FIRST_PAGES).map(|n| page(n, 4096)).collect();
    let pages: Vec<&[u8]> = pages.iter().map(Vec::as_slice).collect();
    let raw = pages.iter().map(|page| page.len()).sum::<usize>() as f64;
    // The pages are alike: in one piece they take much less than one by one.
    let alone = training_job.judge_alone(&pages, CodecChoice::Zstd) as f64;
    let together = training_job.together(&pages) * raw;
    assert!(together < alone * 0.8, "{together} {alone}");
    assert!(training_job.dictionary_may_help(alone, &pages, &pages));
    assert!(training_job.dictionary_may_help(together, &pages, &pages));
    assert!(!training_job.dictionary_may_help(together * 0.8, &pages, &pages));
    assert!(!training_job.dictionary_may_help(alone * 0.1, &pages, &pages));
    let noise: Vec<Vec<u8>> = (0..FIRST_PAGES).map(noise).collect();
    let noise: Vec<&[u8]> = noise.iter().map(Vec::as_slice).collect();
    assert!(!training_job.dictionary_may_help(raw * 0.8, &noise, &noise));
}

#[test]
fn samples_of_a_whole_make_its_families_due_at_once() {
    let mut learner = Learner::new();
    learner.set_database_bytes(400 << 20);
    for n in 0..20 {
        learner.observe(A, &page(n, 4096));
        learner.observe(B, &page(n + 70_000, 4096));
    }
    assert!(
        learner.due().is_none(),
        "20 pages by themselves are too few"
    );
    learner.flush();
    let due: Vec<Family> = std::iter::from_fn(|| learner.due())
        .map(|l| l.family)
        .collect();
    assert_eq!(due, [B, A, Family::OTHER], "the one seen last first");
}

#[test]
fn drift_is_noticed() {
    let mut learner = Learner::new();
    let mut dict: Option<Arc<Dictionary>> = None;
    let mut trained = Vec::new();
    for n in 0..3000u64 {
        // After 1000 pages the words change.
        let mut page = page(n, 4096);
        if n >= 1000 {
            page.iter_mut()
                .filter(|b| b.is_ascii_lowercase())
                .for_each(|b| *b = (*b - b'a' + 11) % 26 + b'A');
        }
        learner.observe(A, &page);
        let mut out = Vec::new();
        encode(&page, 3, dict.as_deref(), CodecChoice::Auto, &mut out);
        learner.coded(A, page.len(), out.len());
        for (family, new) in train_all(&mut learner, n as u32) {
            if family == A {
                trained.push((n, new.bytes().len()));
                dict = Some(new);
            }
        }
    }
    let drifted: Vec<_> = trained
        .iter()
        .filter(|(n, _)| (1000..1500).contains(n))
        .collect();
    assert_eq!(drifted.len(), 1, "trained at {trained:?}");
}

#[test]
fn samples_stay_within_their_bound_and_training_is_the_same_each_time() {
    let run = || {
        let mut learner = Learner::new();
        let mut sum = 0u64;
        for n in 0..30_000u64 {
            let len = [512, 4096, 8192, 1024][(n % 4) as usize];
            // Cheap to make, and different.
            let mut page = vec![n as u8; len];
            page[..8].copy_from_slice(&n.to_le_bytes());
            learner.observe(Family((n % 400) as u16), &page);
            assert!(learner.sample_bytes() <= SAMPLE_BYTES);
            if n % 5000 == 4999 {
                while let Some(training_job) = learner.due() {
                    for byte in training_job.samples.concat() {
                        sum = sum.wrapping_mul(31).wrapping_add(u64::from(byte));
                    }
                }
            }
        }
        let held: usize = learner
            .families
            .values()
            .map(|statistics| statistics.samples.bytes())
            .sum();
        assert_eq!(held, learner.sample_bytes());
        assert!(learner.families.len() <= FAMILIES);
        sum
    };
    let first = run();
    assert_ne!(first, 0);
    assert_eq!(first, run());
}

#[test]
fn a_dictionary_found_in_the_file_counts() {
    let mut learner = Learner::new();
    let old = Arc::new(Dictionary::new(
        3,
        CodecId::ZSTD_DICT,
        training_job::train(
            &(0..100)
                .map(|n| page(n, 4096))
                .collect::<Vec<_>>()
                .iter()
                .map(|p| &p[..])
                .collect::<Vec<_>>(),
            16 << 10,
        )
        .expect("enough"),
    ));
    learner.installed(A, &old);
    for n in 0..300 {
        learner.observe(A, &page(n + 500, 4096));
    }
    assert!(
        learner.due().is_none_or(|l| l.family != A),
        "it has one that is large enough"
    );
}

#[test]
fn hostile_samples_do_no_harm() {
    for len in [0, 1, 3, 7, 8, 100, 70_000] {
        let mut learner = Learner::new();
        for n in 0..500u64 {
            learner.observe(A, &vec![n as u8; len]);
        }
        learner.set_database_bytes(1 << 40);
        learner.flush();
        train_all(&mut learner, 1);
    }
}

/// The cost of OTHER's dictionary is compared with the pages left for it, not with all pages seen
/// before families had their own.
#[test]
fn other_stands_for_pages_without_a_dictionary_of_their_own() {
    let mut learner = Learner::new();
    learner.set_database_bytes(64 << 20);
    for n in 0..FIRST_PAGES * 8 {
        learner.observe(Family::of(&leaf(n % 8, n)), &leaf(n % 8, n));
    }
    for n in 0..TRAINING_PAGES as u64 {
        learner.observe(Family::OTHER, &page(n, 4096));
    }
    learner.flush();
    let mut rest = None;
    while let Some(training_job) = learner.due() {
        if training_job.family == Family::OTHER {
            rest = Some(training_job);
        } else {
            // The family has its own dictionary from now on.
            let dict = Arc::new(Dictionary::new(1, CodecId::ZSTD_DICT, vec![7; 300]));
            learner.installed(training_job.family, &dict);
        }
    }
    let rest = rest.expect("OTHER is trained too");
    assert!((1..=TRAINING_PAGES).contains(&rest.samples.len()));
    assert!(rest.bytes < 8 << 20, "{}", rest.bytes);
    assert!(rest.max_bytes < DICTIONARY_BYTES.1, "{}", rest.max_bytes);
}

/// A table leaf whose family follows from its number of columns.
fn leaf(columns: u64, n: u64) -> Vec<u8> {
    let mut page = noise(n);
    let cell = 4000u16;
    page[..10].copy_from_slice(&[13, 0, 0, 0, 1, 0x0f, 0xa0, 0, 0x0f, 0xa0]);
    let header = columns as u8 + 3;
    page[usize::from(cell)..][..3].copy_from_slice(&[90, 1, header]);
    page[usize::from(cell) + 3..][..usize::from(header) - 1].fill(1);
    page
}

/// A page of a table of two columns, text and number, with rows of one of two kinds.
fn rows(kind: u64, n: u64) -> Vec<u8> {
    const CELL: usize = 57;
    let (mut page, cells) = (vec![0; 4096], 60);
    page[..8].copy_from_slice(&[13, 0, 0, 0, cells as u8, 0, 0, 0]);
    for row in 0..cells {
        let (id, at) = (n * 60 + row as u64, 4096 - CELL * (row + 1));
        let x = densite_disk::hash::xxh3_64(&id.to_le_bytes());
        let words = if kind == 0 {
            [
                "amber..", "beryl..", "coral..", "diamond", "emerald", "fluorit", "garnet.",
                "hematit",
            ]
        } else {
            [
                "Antwerp", "Bergen.", "Cadiz..", "Dublin.", "Exeter.", "Florenz", "Genoa..",
                "Hamburg",
            ]
        };
        let word = |i: u32| words[(x >> (3 * i)) as usize & 7];
        let text = (0..6).map(word).collect::<Vec<_>>().join("-");
        let number = if kind == 0 {
            1 << 24 | id as u32
        } else {
            x as u32 | 1 << 28
        };
        let record = [
            &[3, 13 + 2 * 47, 4][..],
            &text.as_bytes()[..47],
            &number.to_be_bytes(),
        ];
        let cell = [&[54, 0x81, row as u8][..], &record.concat()].concat();
        page[at..at + cell.len()].copy_from_slice(&cell);
        page[8 + 2 * row..][..2].copy_from_slice(&(at as u16).to_be_bytes());
    }
    let first = (4096 - CELL * cells) as u16;
    page[5..7].copy_from_slice(&first.to_be_bytes());
    page
}

/// Two tables of one shape are one family. A training job makes a model for each.
#[test]
fn two_tables_of_one_shape_get_two_models() {
    let training_job = |kinds: u64| {
        let mut learner = Learner::new();
        learner.set_database_bytes(64 << 20);
        for n in 0..300 {
            let page = rows(n % kinds, n);
            assert_eq!(Family::of(&page), Family::of(&rows(0, 0)));
            learner.observe(Family::of(&page), &page);
        }
        learner.flush();
        learner.due().expect("enough").train()
    };
    let (one, two) = (training_job(1), training_job(2));
    assert_eq!((one.len(), two.len()), (1, 2));
    assert!(two.iter().all(|t| t.codec == CodecId::TYPED));
}

/// Drift that no training job can reduce is accepted, with a training job from time to time.
#[test]
fn drift_that_cannot_be_learned_costs_few_training_jobs() {
    let mut learner = Learner::new();
    let mut training_jobs = Vec::new();
    for n in 0..20_000u64 {
        learner.observe(A, &noise(n));
        // The ratio grows by a tenth every 400 pages.
        let stored = 100.0 * 1.1f64.powi((n / 400) as i32).min(40.0);
        learner.coded(A, 4096, stored as usize);
        while let Some(training_job) = learner.due() {
            if training_job.family == A {
                training_jobs.push(n);
            }
        }
    }
    assert!((3..=16).contains(&training_jobs.len()), "{training_jobs:?}");
}

/// A page of a table with three numbers: the row's own, and two random ones. In rows of kind 1 the
/// second random number is slightly larger than the first.
fn numbers(kind: u64, n: u64) -> Vec<u8> {
    const CELL: usize = 19;
    let (mut page, cells) = (vec![0; 4096], 190);
    page[..8].copy_from_slice(&[13, 0, 0, 0, cells as u8, 0, 0, 0]);
    for row in 0..cells {
        let (id, at) = (n * 190 + row as u64, 4096 - CELL * (row + 1));
        let x = densite_disk::hash::xxh3_64(&id.to_le_bytes());
        let random = match kind {
            0 => x >> 32,
            _ => x + (x >> 32) % 5,
        };
        let values = [
            1 << 25 | id as u32,
            1 << 26 | x as u32 & 0xf_ffff,
            1 << 26 | random as u32 & 0xf_ffff,
        ];
        let rowid = [0x80 | 0x40 | (id >> 7 & 0x3f) as u8, id as u8 & 0x7f];
        page[at..at + 7].copy_from_slice(&[16, rowid[0], rowid[1], 4, 4, 4, 4]);
        for (to, value) in page[at + 7..].chunks_mut(4).zip(values) {
            to.copy_from_slice(&value.to_be_bytes());
        }
        page[8 + 2 * row..][..2].copy_from_slice(&(at as u16).to_be_bytes());
    }
    let first = (4096 - CELL * cells) as u16;
    page[5..7].copy_from_slice(&first.to_be_bytes());
    page
}

/// A table of numbers that only grow is not trained again and again. A table whose numbers changed
/// is, and so is one of two kinds, and text.
#[test]
fn a_trial_tells_whether_a_training_job_can_bring_something() {
    let training_job = |page: fn(u64, u64) -> Vec<u8>, kind: u64, next: &dyn Fn(u64) -> Vec<u8>| {
        let mut learner = Learner::new();
        let show = |learner: &mut Learner, page: &[u8]| {
            learner.observe(Family::of(page), page);
        };
        for n in 0..FIRST_PAGES {
            show(&mut learner, &page(kind, n));
        }
        assert_eq!(
            train_all(&mut learner, 1).len(),
            1,
            "the first training job"
        );
        let mut n = FIRST_PAGES;
        loop {
            show(&mut learner, &next(n));
            if let Some(training_job) = learner.due() {
                break training_job;
            }
            n += 1;
            assert!(n < 4000, "it has grown by more than enough");
        }
    };
    let promising = |training_job: &TrainingJob| {
        let all: Vec<&[u8]> = training_job.samples.iter().map(Vec::as_slice).collect();
        training_job.may_bring_something(&all, &all)
    };
    let grown = training_job(numbers, 0, &|n| numbers(0, n));
    assert!(!grown.is_first() && !promising(&grown));
    assert_eq!(grown.train(), []);
    let changed = training_job(numbers, 0, &|n| numbers(1, n));
    assert!(promising(&changed));
    assert_eq!(changed.train().len(), 1);
    let two = training_job(numbers, 0, &|n| numbers(n / 5 % 2, n));
    assert!(promising(&two));
    assert!(!two.train().is_empty());
    let text = training_job(rows, 0, &|n| rows(0, n));
    assert!(promising(&text));
}

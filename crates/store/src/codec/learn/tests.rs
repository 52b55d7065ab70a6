use std::sync::Arc;

use super::super::family::Family;
use super::super::tests::page;
use super::super::{CodecId, Dictionary, encode};
use super::*;
use crate::CodecChoice;

const A: Family = Family(0x2003);
const B: Family = Family(0x2004);

/// A page that no dictionary helps.
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

/// Trains what is due and installs it; returns the dictionaries that came of it.
fn teach(learner: &mut Learner, id: u32) -> Vec<(Family, Arc<Dictionary>)> {
    let mut out = Vec::new();
    while let Some(lesson) = learner.due() {
        if let Some(trained) = lesson.train() {
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
fn a_family_is_taught_when_enough_was_seen_and_again_when_it_has_grown() {
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
    let lesson = learner.due_first().expect("enough");
    assert!(lesson.is_first());
    assert!(
        learner.due().is_none_or(|l| l.family == Family::OTHER),
        "not while the lesson exists"
    );
    let trained = lesson.train().expect("the pages are alike");
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
    let lesson = learner
        .due()
        .expect("eight times as much, and twice the dictionary would pay");
    assert_eq!((lesson.family, lesson.is_first()), (A, false));
    assert!(lesson.max_bytes >= 2 * dict.bytes().len());
    // A lesson that comes to nothing (here: is thrown away) is not repeated at once.
    drop(lesson);
    assert!(learner.due().is_none());
}

#[test]
fn a_small_database_gets_small_dictionaries_however_often_it_is_rewritten() {
    let mut learner = Learner::new();
    learner.set_database_bytes(1 << 20);
    let mut bytes = Vec::new();
    for n in 0..20_000 {
        learner.observe(A, &page(n % 200, 4096));
        bytes.extend(teach(&mut learner, 1).iter().map(|(_, d)| d.bytes().len()));
    }
    assert!(
        !bytes.is_empty() && bytes.iter().sum::<usize>() <= 2 * 10_485,
        "{bytes:?}"
    );
}

#[test]
fn what_does_not_shrink_gets_no_dictionary_and_costs_few_lessons() {
    let mut learner = Learner::new();
    let mut lessons = 0;
    for n in 0..5000 {
        learner.observe(A, &noise(n));
        learner.coded(A, 4096, 4096);
        while let Some(lesson) = learner.due() {
            lessons += 1;
            assert_eq!(lesson.train(), None);
        }
    }
    assert!(lessons <= 5, "{lessons}");
}

#[test]
fn rare_families_are_learned_together() {
    let mut learner = Learner::new();
    for n in 0..600 {
        // 60 families of 10 pages each, and one of its own.
        learner.observe(Family(0x2100 + (n % 60) as u16), &page(n, 4096));
        learner.observe(A, &page(10_000 + n, 4096));
    }
    let families: Vec<Family> = teach(&mut learner, 1)
        .iter()
        .map(|(family, _)| *family)
        .collect();
    assert_eq!(families, [A, Family::OTHER], "OTHER last");
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
    let mut taught = Vec::new();
    for n in 0..3000u64 {
        // After 1000 pages the words are others.
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
        for (family, new) in teach(&mut learner, n as u32) {
            if family == A {
                taught.push((n, new.bytes().len()));
                dict = Some(new);
            }
        }
    }
    let drifted: Vec<_> = taught
        .iter()
        .filter(|(n, _)| (1000..1500).contains(n))
        .collect();
    assert_eq!(drifted.len(), 1, "taught at {taught:?}");
}

#[test]
fn samples_stay_within_their_bound_and_lessons_are_the_same_each_time() {
    let run = || {
        let mut learner = Learner::new();
        let mut sum = 0u64;
        for n in 0..30_000u64 {
            let len = [512, 4096, 65536, 1024][(n % 4) as usize];
            // Cheap to make, and different.
            let mut page = vec![n as u8; len];
            page[..8].copy_from_slice(&n.to_le_bytes());
            learner.observe(Family((n % 400) as u16), &page);
            assert!(learner.sample_bytes() <= SAMPLE_BYTES);
            if n % 5000 == 4999 {
                while let Some(lesson) = learner.due() {
                    for byte in lesson.samples.concat() {
                        sum = sum.wrapping_mul(31).wrapping_add(u64::from(byte));
                    }
                }
            }
        }
        let held: usize = learner
            .pupils
            .values()
            .map(|pupil| pupil.samples.bytes())
            .sum();
        assert_eq!(held, learner.sample_bytes());
        assert!(learner.pupils.len() <= FAMILIES);
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
        lesson::train(
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
        teach(&mut learner, 1);
    }
}

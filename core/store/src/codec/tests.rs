use std::sync::Arc;

use proptest::prelude::*;

use super::learn::Learner;
use super::*;
use crate::CodecChoice;

/// A page that looks like rows of text and numbers, different for each `n`. There are so many words
/// that one page does not hold them all.
pub(super) fn page(n: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 80);
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let word = |i: u64, out: &mut Vec<u8>| {
        let mut w = (i % 300 + 1).wrapping_mul(0xd134_2543_de82_ef95);
        for _ in 0..4 + i % 7 {
            w = w.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            out.push(b'a' + (w >> 40) as u8 % 26);
        }
        out.push(b' ');
    };
    while out.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend_from_slice(format!("{:04}|", x % 977).as_bytes());
        for i in 0..4 {
            word(x >> (12 * i), &mut out);
        }
    }
    out.truncate(len);
    out
}

pub(super) fn dictionary(id: u32) -> Dictionary {
    let mut learner = Learner::new();
    for n in 0..200 {
        learner.observe(family::Family::OTHER, &page(n, 4096));
    }
    let trained = learner
        .due()
        .expect("200 pages are enough")
        .train()
        .pop()
        .expect("the pages are alike");
    Dictionary::new(id, trained.codec, trained.bytes)
}

fn round_trip(
    raw: &[u8],
    level: i32,
    dict: Option<&Dictionary>,
    choice: CodecChoice,
) -> (Encoded, usize) {
    let mut out = vec![7; 3];
    let encoded = encode(raw, level, dict, choice, &mut out);
    assert_eq!(out[..3], [7; 3], "earlier bytes stay");
    let mut back = vec![0x55; raw.len()];
    decode(encoded.codec, &out[3..], dict, &mut back).expect("own payload");
    assert!(back == raw, "level {level}, codec {}", encoded.codec.name());
    (encoded, out.len() - 3)
}

#[test]
fn every_size_and_level_comes_back() {
    let dict = dictionary(9);
    for len in [
        0, 1, 64, 255, 256, 257, 512, 4096, 8192, 65535, 65536, 65791, 65792, 65793, 200_000,
    ] {
        let raw = page(len as u64, len);
        for level in [-7, -1, 0, 1, 3, 6, 12] {
            round_trip(&raw, level, None, CodecChoice::Auto);
            round_trip(&raw, level, Some(&dict), CodecChoice::Auto);
        }
    }
    // Longer than the window of its level: zstd writes another form of the frame header.
    let long = page(1, 3 << 20);
    for level in [-7, 1, 3] {
        let (encoded, len) = round_trip(&long, level, None, CodecChoice::Zstd);
        assert_eq!(encoded.codec, CodecId::ZSTD);
        assert!(len < long.len() * 3 / 4);
        round_trip(&long, level, Some(&dict), CodecChoice::Zstd);
    }
    for level in [19, 22, i32::MAX, i32::MIN] {
        round_trip(&page(1, 4096), level, Some(&dict), CodecChoice::Auto);
    }
}

#[test]
fn the_smallest_form_is_chosen() {
    let dict = dictionary(9);
    let raw = page(1000, 4096);
    let (encoded, alone) = round_trip(&raw, 3, None, CodecChoice::Auto);
    assert_eq!(
        encoded,
        Encoded {
            codec: CodecId::ZSTD,
            dict_id: 0
        }
    );
    let (encoded, with) = round_trip(&raw, 3, Some(&dict), CodecChoice::Auto);
    assert_eq!(
        encoded,
        Encoded {
            codec: CodecId::ZSTD_DICT,
            dict_id: 9
        }
    );
    assert!(
        with < alone * 9 / 10,
        "{with} with a dictionary, {alone} without"
    );

    let (encoded, len) = round_trip(&raw, 3, Some(&dict), CodecChoice::Raw);
    assert_eq!(
        (encoded, len),
        (
            Encoded {
                codec: CodecId::RAW,
                dict_id: 0
            },
            4096
        )
    );
    let (encoded, len) = round_trip(&[0; 4096], 3, Some(&dict), CodecChoice::Auto);
    assert_eq!(
        (encoded, len),
        (
            Encoded {
                codec: CodecId::ZERO,
                dict_id: 0
            },
            0
        )
    );

    let mut noise = vec![0u8; 4096];
    let mut x = 1u64;
    for byte in &mut noise {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        *byte = (x >> 56) as u8;
    }
    let (encoded, len) = round_trip(&noise, 3, Some(&dict), CodecChoice::Auto);
    assert_eq!(
        (encoded.codec, len),
        (CodecId::RAW, 4096),
        "what does not shrink is stored as it is"
    );
    // One byte that is not zero, anywhere, makes a page that is not zero.
    for at in [0, 63, 64, 4095] {
        let mut raw = vec![0; 4096];
        raw[at] = 1;
        assert_ne!(
            round_trip(&raw, 3, None, CodecChoice::Auto).0.codec,
            CodecId::ZERO
        );
    }
}

#[test]
fn a_zstd_payload_is_a_zstd_frame_without_its_header() {
    let raw = page(1, 4096);
    let mut payload = Vec::new();
    assert_eq!(
        encode(&raw, 3, None, CodecChoice::Zstd, &mut payload).codec,
        CodecId::ZSTD
    );
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x00, 0x0f];
    frame.extend_from_slice(&payload);
    assert_eq!(zstd::bulk::decompress(&frame, 4096).expect("a frame"), raw);
}

#[test]
fn decode_errors_say_what_is_wrong() {
    let say = |codec: u8, payload: &[u8], dict: Option<&Dictionary>| {
        decode(CodecId(codec), payload, dict, &mut [0; 512]).expect_err("must fail")
    };
    assert_eq!(say(77, &[], None), "codec 77 is not known to this program");
    assert_eq!(say(3, &[], None), "typed payload that no page has");
    assert_eq!(
        say(5, &[12], None),
        "typed payload that no run of pages has"
    );
    assert_eq!(say(6, &[1, 2], None), "archive payload without its length");
    assert_eq!(
        say(6, &[0, 0, 0, 1], None),
        "archive payload of 16777216 bytes"
    );
    assert_eq!(
        say(0, &[0; 511], None),
        "raw payload of 511 bytes for 512 bytes of page"
    );
    assert_eq!(say(4, &[1], None), "a zero page has a payload of 1 bytes");
    assert_eq!(
        say(2, &[1], None),
        "the payload needs a dictionary, and there is none"
    );
    assert!(say(1, &[1, 2, 3], None).starts_with("zstd"));
    assert!(say(1, &[], None).starts_with("zstd"));
    let broken = Dictionary::new(
        5,
        CodecId::ZSTD_DICT,
        [&[0x37, 0xa4, 0x30, 0xec][..], &[0xff; 100]].concat(),
    );
    assert_eq!(
        say(2, &[1], Some(&broken)),
        "dictionary 5 is not a zstd dictionary"
    );

    // A broken dictionary does not stop a page from being stored.
    let mut out = Vec::new();
    let encoded = encode(
        &page(1, 4096),
        3,
        Some(&broken),
        CodecChoice::Auto,
        &mut out,
    );
    assert_eq!(
        encoded,
        Encoded {
            codec: CodecId::ZSTD,
            dict_id: 0
        }
    );
}

#[test]
fn a_payload_of_another_length_is_refused() {
    let mut payload = Vec::new();
    encode(&page(1, 4096), 3, None, CodecChoice::Zstd, &mut payload);
    for len in [0, 1, 512, 4095, 4097, 8192] {
        decode(CodecId::ZSTD, &payload, None, &mut vec![0; len]).expect_err("wrong length");
    }
    // Two frames in a row are not one page.
    let mut two = payload.clone();
    two.extend_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x00, 0x0f]);
    two.extend_from_slice(&payload);
    decode(CodecId::ZSTD, &two, None, &mut [0; 4096]).expect_err("twice the length");
}

#[test]
fn every_single_bit_flip_is_an_error_or_another_page() {
    let dict = dictionary(1);
    let raw = page(3, 512);
    for dict in [None, Some(&dict)] {
        let mut payload = Vec::new();
        let encoded = encode(&raw, 3, dict, CodecChoice::Zstd, &mut payload);
        for bit in 0..payload.len() * 8 {
            payload[bit / 8] ^= 1 << (bit % 8);
            let _ = decode(encoded.codec, &payload, dict, &mut [0; 512]);
            payload[bit / 8] ^= 1 << (bit % 8);
        }
        for len in 0..payload.len() {
            decode(encoded.codec, &payload[..len], dict, &mut [0; 512]).expect_err("cut off");
        }
        // The thread's decoder still works after errors.
        let mut back = [0; 512];
        decode(encoded.codec, &payload, dict, &mut back).expect("own payload");
        assert_eq!(back[..], raw);
    }
}

#[test]
fn a_dictionary_serves_many_threads() {
    let dict = Arc::new(dictionary(4));
    std::thread::scope(|scope| {
        for t in 0..4u64 {
            let dict = &dict;
            scope.spawn(move || {
                for n in 0..100 {
                    let level = [1, 3, 5][(n % 3) as usize];
                    round_trip(
                        &page(t * 1000 + n, 4096),
                        level,
                        Some(dict),
                        CodecChoice::Auto,
                    );
                }
            });
        }
    });
}

proptest! {
    #[test]
    fn any_bytes_come_back(raw in proptest::collection::vec(any::<u8>(), 0..3000), level in -7..10, repeat in 1usize..4) {
        let raw = raw.repeat(repeat);
        round_trip(&raw, level, None, CodecChoice::Auto);
    }

    #[test]
    fn hostile_bytes_never_panic(
        codec in 0u8..10,
        payload in proptest::collection::vec(any::<u8>(), 0..600),
        dict in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..400)),
        magic in any::<bool>(),
        len in 0usize..5000,
    ) {
        let dict = dict.map(|mut bytes| {
            if magic {
                bytes.splice(..0, [0x37, 0xa4, 0x30, 0xec]);
            }
            Dictionary::new(1, CodecId(codec), bytes)
        });
        let mut out = vec![0; len];
        if decode(CodecId(codec), &payload, dict.as_ref(), &mut out).is_ok() && codec == 0 {
            prop_assert_eq!(&out, &payload);
        }
        round_trip(&payload, 3, dict.as_ref(), CodecChoice::Auto);
    }
}

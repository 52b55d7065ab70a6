//! Dictionaries as their records have them. A zstd dictionary is text of the family's pages, so it
//! is packed: coded by zstd itself, which takes two thirds of it away. See docs/FORMAT.md,
//! Dictionary.

use super::encode::encode;
use super::{CodecId, Dictionary, blocks::decode_blocks};
use crate::CodecChoice;
use crate::format::record::MAX_PAYLOAD;

/// The zstd level. Higher ones save a hundredth.
const LEVEL: i32 = 12;

impl Dictionary {
    /// The payload of the dictionary's record, and the record's codec.
    pub fn to_stored(&self) -> (CodecId, Vec<u8>) {
        let bytes = self.bytes();
        if self.codec() == CodecId::ZSTD_DICT {
            let mut packed = (bytes.len() as u32).to_le_bytes().to_vec();
            let coded = encode(bytes, LEVEL, None, CodecChoice::Zstd, &mut packed);
            if coded.codec == CodecId::ZSTD {
                return (CodecId::ZSTD, packed);
            }
        }
        (self.codec(), bytes.to_vec())
    }

    /// The dictionary of a record. Like [`Dictionary::new`], it accepts any bytes.
    pub fn from_stored(id: u32, codec: CodecId, payload: &[u8]) -> Dictionary {
        let bytes = match codec {
            CodecId::ZSTD => unpack(payload),
            _ => None,
        };
        let bytes = bytes.unwrap_or_else(|| payload.to_vec());
        Dictionary::new(id, codec, bytes)
    }
}

/// The bytes of a packed dictionary; `None` if it is none.
fn unpack(payload: &[u8]) -> Option<Vec<u8>> {
    let (len, blocks) = payload.split_first_chunk()?;
    let len = u32::from_le_bytes(*len);
    let mut bytes = vec![0; (len <= MAX_PAYLOAD).then_some(len as usize)?];
    decode_blocks(blocks, None, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{dictionary, page};
    use super::*;

    fn noise(n: u64) -> u8 {
        ((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_pow(3) >> 40) as u8
    }

    #[test]
    fn a_zstd_dictionary_is_packed_in_its_record_and_comes_back() {
        let dict = dictionary(9);
        let (codec, payload) = dict.to_stored();
        assert_eq!(codec, CodecId::ZSTD);
        assert!(
            payload.len() * 4 < dict.bytes().len() * 3,
            "{}",
            payload.len()
        );
        let back = Dictionary::from_stored(9, codec, &payload);
        assert!(back.bytes() == dict.bytes() && back.codec() == CodecId::ZSTD_DICT);
    }

    #[test]
    fn other_dictionaries_are_stored_unchanged() {
        let noise: Vec<u8> = (0..600u64).map(noise).collect();
        for codec in [CodecId::ZSTD_DICT, CodecId::TYPED] {
            let dict = Dictionary::new(1, codec, noise.clone());
            assert_eq!(dict.to_stored(), (codec, noise.clone()));
            assert_eq!(Dictionary::from_stored(1, codec, &noise).bytes(), noise);
        }
    }

    #[test]
    fn damaged_packed_dictionaries_are_dictionaries_of_other_bytes() {
        let (codec, payload) = dictionary(9).to_stored();
        for at in (0..payload.len()).step_by(97) {
            let mut damaged = payload.clone();
            damaged[at] ^= 0x55;
            let dict = Dictionary::from_stored(1, codec, &damaged);
            let _ =
                super::super::decode(CodecId::ZSTD_DICT, &page(1, 64), Some(&dict), &mut [0; 9]);
            let _ = Dictionary::from_stored(1, codec, &payload[..at]);
        }
        for len in [1u32, 0x7f_ffff, 0x80_0001, u32::MAX] {
            let dict = Dictionary::from_stored(1, codec, &len.to_le_bytes());
            assert_eq!(dict.bytes(), len.to_le_bytes());
        }
    }
}

//! A message as bytes.

use super::{Body, HEADER_LEN, MAGIC, Message, VERSION};
use densite_disk::hash::{xxh3_64, xxh3_64_with_seed};
use densite_log::pack_records;

/// Shorter bodies are not compressed.
const COMPRESSED_FROM: usize = 256;

impl Message {
    fn kind(&self) -> u8 {
        match &self.body {
            Body::Rows(_) => 1,
            Body::Joined(_) => 2,
            Body::Left => 3,
            Body::DigestsWanted => 4,
            Body::Digests(_) => 5,
        }
    }

    /// Its bytes.
    ///
    /// # Errors
    /// As [`pack_records`].
    pub(crate) fn encode(&self) -> densite_log::Result<Vec<u8>> {
        let body = match &self.body {
            Body::Rows(records) => pack_records(records)?,
            Body::Joined(joined) => serde_json::json!(joined).to_string().into_bytes(),
            Body::Digests(digests) => serde_json::json!(digests).to_string().into_bytes(),
            Body::Left | Body::DigestsWanted => b"{}".to_vec(),
        };
        let smaller = match body.len() >= COMPRESSED_FROM {
            true => zstd::bulk::compress(&body, 1).ok(),
            false => None,
        };
        let smaller = smaller.filter(|smaller| smaller.len() < body.len() - body.len() / 8);
        let (codec, stored) = match &smaller {
            Some(smaller) => (1, smaller),
            None => (0, &body),
        };
        let mut out = Vec::with_capacity(HEADER_LEN + stored.len());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[VERSION, self.kind(), codec, 0]);
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.log.0);
        out.extend_from_slice(&self.from.to_le_bytes());
        out.extend_from_slice(&self.to.to_le_bytes());
        out.extend_from_slice(&self.last.row.to_le_bytes());
        out.extend_from_slice(&self.last.txn.to_le_bytes());
        let check = xxh3_64_with_seed(stored, xxh3_64(&out));
        out.extend_from_slice(&check.to_le_bytes());
        out.extend_from_slice(stored);
        Ok(out)
    }
}

//! The head: a JSON object that names the generations of a replica, and in them what is not found by
//! counting deltas. It is replaced only by who has read its newest version. Its last key, `sum`, is a
//! checksum of the text without it: a flipped digit can be JSON, too.

use crate::error::{Error, Result};
use crate::format::REPLICA_FORMAT_VERSION;
use crate::names::HEAD;
use densite_disk::hash::xxh3_128;
use serde::{Deserialize, Serialize};

/// Numbers of restore points are below this: they have 12 digits in names.
const POINTS_MAX: u64 = 1_000_000_000_000;
/// Objects have fewer bytes than this.
const BYTES_MAX: u64 = 1 << 60;

/// No byte is merged as often as this.
const MERGES_MAX: u32 = 1_000_000;

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Format version, 1.
    pub(crate) version: u32,
    /// The generation that grows.
    pub(crate) current: Generation,
    /// Those before it, the oldest first.
    pub(crate) earlier: Vec<Generation>,
    /// Objects that are removed an hour after they were superseded.
    pub(crate) superseded: Vec<Superseded>,
}

/// A base and all that follows it without a break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Generation {
    /// The beginning of the names of its objects.
    pub(crate) name: String,
    /// One more than that of the generation before.
    pub(crate) epoch: u64,
    /// The random number of the database file, in hexadecimal.
    pub(crate) database: String,
    /// Which copy of the database is shipped: random for each.
    pub(crate) owner: String,
    /// Its bases, the oldest first; empty while the first one is being uploaded.
    pub(crate) bases: Vec<Base>,
    /// Its compacted deltas, by their first number; they do not overlap.
    pub(crate) compacted: Vec<Compacted>,
    /// No delta follows the newest base and the compacted deltas behind it. The head says otherwise
    /// before the next one is created.
    pub(crate) rests: bool,
}

/// The objects of a generation that lead only to restore points before one. Readers that know an
/// older head can still read them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Superseded {
    /// The name of the generation.
    pub(crate) generation: String,
    /// That restore point; none: all objects.
    pub(crate) n: Option<u64>,
    /// Since when, in milliseconds since 1970.
    pub(crate) since_ms: u64,
}

/// An image of the whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    /// The name of the object.
    pub(crate) name: String,
    /// The restore point that it is.
    pub(crate) n: u64,
    /// Its commit.
    pub(crate) commit: u64,
    /// When it was taken, in milliseconds since 1970.
    pub(crate) time_ms: u64,
    /// Bytes of the object.
    pub(crate) bytes: u64,
}

/// A compacted delta.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Compacted {
    /// The first restore point in it.
    pub(crate) first: u64,
    /// The last one.
    pub(crate) last: u64,
    /// When that was taken, in milliseconds since 1970.
    pub(crate) time_ms: u64,
    /// Bytes of the object.
    pub(crate) bytes: u64,
    /// How often the bytes in it were merged, at most.
    pub(crate) merges: u32,
}

/// What is between the last key of a head and its checksum.
const SUM: &str = ",\n  \"sum\": \"";
/// The end of a head.
const END: &str = "\n}\n";

impl Head {
    /// The head as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Serializing these types cannot fail: all keys are text.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        let keys = text.strip_suffix("\n}").unwrap_or(&text);
        format!("{keys}{SUM}{}\"{END}", sum(keys)).into_bytes()
    }

    /// Decodes the head.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Newer`].
    pub(crate) fn decode(bytes: &[u8]) -> Result<Head> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let damaged = |problem: String| Error::Damaged {
            object: HEAD.to_owned(),
            problem,
        };
        let version: Version = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
        if version.version > REPLICA_FORMAT_VERSION {
            return Err(Error::Newer {
                object: HEAD.to_owned(),
                found: version.version,
                supported: REPLICA_FORMAT_VERSION,
            });
        }
        let head: Head = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
        if !is_whole(bytes) {
            return Err(damaged("its checksum is wrong".to_owned()));
        }
        let is_valid = head.newest_first().all(Generation::is_valid);
        match is_valid {
            true => Ok(head),
            false => Err(damaged("a name or a number is out of range".to_owned())),
        }
    }

    /// The generations, the newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &Generation> {
        std::iter::once(&self.current).chain(self.earlier.iter().rev())
    }
}

/// Whether the text has its checksum.
fn is_whole(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).ok();
    let parts = text.and_then(|text| text.strip_suffix(END)?.rsplit_once(SUM));
    parts.is_some_and(|(keys, found)| found.strip_suffix('"') == Some(&sum(keys)))
}

/// The checksum of a head, from its keys without the end.
fn sum(keys: &str) -> String {
    format!("{:032x}", xxh3_128(format!("{keys}{END}").as_bytes()))
}

impl Generation {
    /// Whether names are names of objects, and numbers are small enough to be added.
    fn is_valid(&self) -> bool {
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        let is_base =
            |base: &Base| is_name(&base.name) && base.n < POINTS_MAX && base.bytes < BYTES_MAX;
        let is_compacted = |c: &Compacted| {
            (1..=c.last).contains(&c.first)
                && c.last < POINTS_MAX
                && c.bytes < BYTES_MAX
                && c.merges < MERGES_MAX
        };
        is_name(&self.name)
            && self.epoch < POINTS_MAX
            && self.bases.iter().all(is_base)
            && self.compacted.iter().all(is_compacted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_survives_its_encoding_and_a_newer_one_is_refused() {
        let generation = Generation {
            name: "g0001-00ff00ff".into(),
            epoch: 1,
            database: "00000000000000ab".into(),
            owner: "x".into(),
            bases: vec![Base {
                name: "g0001-00ff00ff-base-000000000000-00000001".into(),
                n: 0,
                commit: 9,
                time_ms: 5,
                bytes: 100,
            }],
            compacted: vec![Compacted {
                first: 1,
                last: 64,
                time_ms: 7,
                bytes: 10,
                merges: 1,
            }],
            rests: true,
        };
        let head = Head {
            version: 1,
            current: generation,
            earlier: Vec::new(),
            superseded: vec![Superseded {
                generation: "g".into(),
                n: Some(4),
                since_ms: 4,
            }],
        };
        assert_eq!(Head::decode(&head.encode()), Ok(head.clone()));
        let bytes = head.encode();
        let parsed: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(parsed["sum"].as_str().map(str::len), Some(32));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Head::decode(&changed).is_err(), "byte {at}");
            assert!(Head::decode(&bytes[..at]).is_err(), "{at} bytes");
        }
        let with = |change: &dyn Fn(&mut Generation)| {
            let mut head = head.clone();
            change(&mut head.current);
            Head::decode(&head.encode())
        };
        let changes: [&dyn Fn(&mut Generation); 5] = [
            &|g| g.name = "../../evil".into(),
            &|g| g.bases[0].name = String::new(),
            &|g| g.bases[0].bytes = 1 << 62,
            &|g| g.compacted[0].last = u64::MAX,
            &|g| g.compacted[0].first = 0,
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let found = with(change);
            assert!(
                matches!(found, Err(Error::Damaged { .. })),
                "{n}: {found:?}"
            );
        }
        let newer = Head { version: 2, ..head };
        let found = Head::decode(&newer.encode());
        assert!(
            matches!(found, Err(Error::Newer { found: 2, .. })),
            "{found:?}"
        );
        for bad in ["", "{}", "[]", "{\"version\":1}"] {
            let found = Head::decode(bad.as_bytes());
            assert!(
                matches!(found, Err(Error::Damaged { .. })),
                "{bad}: {found:?}"
            );
        }
    }
}

//! The page codecs alone: every leaf page of LINEITEM is encoded in order, then decoded once, in
//! random order.
//!
//! `densite_typed` is called as the store calls it for a frame of one page. It is compared with
//! zstd at level 3 with a dictionary of 112 KiB. Both learn from the same sample, drawn as `densite
//! compress` draws its own. Encoding includes decoding, comparison and xxh3-64 of payload and page.
//! Decoding includes both hashes. One thread is used, and each page is timed alone. The clock's own
//! time is reported, not subtracted.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use densite_disk::hash::xxh3_64;
use densite_typed::{Model, PageContext, Purpose};
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom as _;
use zstd::bulk::{Compressor, Decompressor};

use crate::connect::Vfs;
use crate::numbers::{median, quantile};
use crate::result::{About as _, Failure, Result};

/// Median time to verify and decode one page, in µs.
pub(crate) const MEDIAN_US: &str = "decode_median_us";
/// 99th percentile of that time, in µs.
pub(crate) const P99_US: &str = "decode_p99_us";
/// Time of two readings of the clock, in µs.
pub(crate) const CLOCK_US: &str = "clock_us";
/// Bytes of pages encoded and verified in a second of CPU time, in MB.
pub(crate) const ENCODE_MB_S: &str = "encode_mb_s";
/// Bytes of all pages, in MiB.
pub(crate) const RAW_MIB: &str = "raw_mib";
/// Bytes of all payloads, in MiB.
pub(crate) const PAYLOAD_MIB: &str = "payload_mib";
/// Pages that the codec refused.
pub(crate) const REFUSED: &str = "refused_pages";

const MIB: f64 = 1024.0 * 1024.0;
/// Bounds of the sample in bytes: it is a 64th of the database. Of one table, it has at most
/// [`SAMPLE_BYTES`].
const SAMPLE: (u64, u64) = (4 << 20, 32 << 20);
const SAMPLE_BYTES: usize = 1536 << 10;
/// Bytes of zstd's dictionary.
const DICTIONARY: usize = 112 << 10;

/// A codec of pages.
trait Codec {
    /// Appends the payload of `page` to `out`, verified. `kept` becomes the decoded page. Returns
    /// false if the codec refuses the page.
    fn encode(
        &mut self,
        page: &[u8],
        context: &PageContext,
        kept: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> bool;

    /// Decodes `payload` into `page`. Returns false if it fails.
    fn decode(&mut self, payload: &[u8], page: &mut [u8]) -> bool;
}

struct Typed(Model);

impl Codec for Typed {
    fn encode(
        &mut self,
        page: &[u8],
        context: &PageContext,
        kept: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> bool {
        densite_typed::encode(page, context, &self.0, kept, out)
    }

    fn decode(&mut self, payload: &[u8], page: &mut [u8]) -> bool {
        densite_typed::decode(payload, &self.0, page).is_ok()
    }
}

struct Zstd {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
    buffer: Vec<u8>,
}

impl Zstd {
    fn new(dictionary: &[u8]) -> std::io::Result<Zstd> {
        Ok(Zstd {
            compressor: Compressor::with_dictionary(3, dictionary)?,
            decompressor: Decompressor::with_dictionary(dictionary)?,
            buffer: Vec::new(),
        })
    }
}

impl Codec for Zstd {
    fn encode(
        &mut self,
        page: &[u8],
        _: &PageContext,
        kept: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> bool {
        self.buffer
            .resize(zstd::zstd_safe::compress_bound(page.len()), 0);
        kept.resize(page.len(), 0);
        let Ok(n) = self
            .compressor
            .compress_to_buffer(page, &mut self.buffer[..])
        else {
            return false;
        };
        let payload = &self.buffer[..n];
        out.extend_from_slice(payload);
        let decoded = self
            .decompressor
            .decompress_to_buffer(payload, &mut kept[..]);
        decoded.is_ok() && kept == page
    }

    fn decode(&mut self, payload: &[u8], page: &mut [u8]) -> bool {
        let n = self.decompressor.decompress_to_buffer(payload, page);
        n.is_ok_and(|n| n == page.len())
    }
}

/// The leaf pages of LINEITEM, in the order of the file.
struct Pages {
    size: usize,
    reserved: usize,
    /// Pages of the whole database.
    count: u32,
    numbers: Vec<u32>,
    bytes: Vec<u8>,
}

impl Pages {
    fn read(path: &Path) -> Result<Pages> {
        let con = Vfs::Plain.open(path)?;
        let figure = |sql| con.query_row(sql, [], |r| r.get::<_, u32>(0));
        let size = figure("PRAGMA page_size")? as usize;
        let count = figure("PRAGMA page_count")?;
        let numbers: Vec<u32> = con
            .prepare("SELECT pageno FROM dbstat WHERE name = 'LINEITEM' AND pagetype = 'leaf' ORDER BY pageno")?
            .query_map([], |r| r.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let file = File::open(path).about("open", path)?;
        let mut header = [0; 100];
        file.read_exact_at(&mut header, 0).about("read", path)?;
        let mut bytes = vec![0; numbers.len() * size];
        for (page, number) in bytes.chunks_mut(size).zip(&numbers) {
            let at = (u64::from(*number) - 1) * size as u64;
            file.read_exact_at(page, at).about("read", path)?;
        }
        Ok(Pages {
            size,
            // The format's description calls this "bytes of unused space at the end of each page".
            reserved: usize::from(header[20]),
            count,
            numbers,
            bytes,
        })
    }

    fn each(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.numbers
            .iter()
            .copied()
            .zip(self.bytes.chunks(self.size))
    }

    /// One page from each of equal parts of the database. Those that are leaves of LINEITEM are
    /// thinned evenly to the size of a training sample.
    fn sample(&self, rng: &mut Xoshiro256PlusPlus) -> Vec<&[u8]> {
        use rand::RngExt as _;
        let count = u64::from(self.count);
        let size = self.size as u64;
        let want = (count * size / 64).clamp(SAMPLE.0, SAMPLE.1) / size;
        let want = want.clamp(1, count);
        let drawn: HashSet<u64> = (0..want)
            .map(|i| rng.random_range(i * count / want..(i + 1) * count / want) + 1)
            .collect();
        let ours: Vec<&[u8]> = self
            .each()
            .filter(|(number, _)| drawn.contains(&u64::from(*number)))
            .map(|(_, page)| page)
            .collect();
        let most = (SAMPLE_BYTES / self.size).min(ours.len());
        (0..most).map(|i| ours[i * ours.len() / most]).collect()
    }
}

/// Whether a leaf page is unchanged. The gap between its cell pointers and its cells does not count,
/// since a codec can clear it.
fn same_cells(raw: &[u8], page: &[u8]) -> bool {
    let be16 = |at: usize| usize::from(u16::from_be_bytes([raw[at], raw[at + 1]]));
    let pointers_end = 8 + 2 * be16(3);
    // 65536 is stored as 0.
    let cells = (be16(5).wrapping_sub(1) & 0xffff) + 1;
    raw.len() == page.len()
        && pointers_end <= cells
        && cells <= raw.len()
        && raw[..pointers_end] == page[..pointers_end]
        && raw[cells..] == page[cells..]
}

/// A page as a frame holds it.
struct Frame {
    from: usize,
    to: usize,
    payload_sum: u64,
    page_sum: u64,
}

/// The result of a measurement.
pub(crate) struct Done {
    /// Pages decoded
    pub(crate) pages: u64,
    /// By name; the names are constants of this module
    pub(crate) figures: BTreeMap<String, f64>,
}

/// Encodes and decodes the leaf pages of LINEITEM in the plain database `path`, with the typed
/// codec, or with zstd and a dictionary. `cpu_time` is read before and after encoding.
///
/// # Errors
/// If a decoded page differs.
pub(crate) fn run(path: &Path, typed: bool, seed: u64, cpu_time: fn() -> Duration) -> Result<Done> {
    let pages = Pages::read(path)?;
    // The sample is the same in every round; only the order of decoding changes.
    let sample = pages.sample(&mut Xoshiro256PlusPlus::seed_from_u64(1));
    let useless = || Failure(format!("{} is too small to learn from", path.display()));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    if typed {
        let purpose = Purpose {
            reserved: pages.reserved,
            ..Purpose::whole(pages.bytes.len() as u64)
        };
        let learned = Model::learn(&sample, &purpose);
        // Stored and read again, as from a file.
        let stored = learned.ok_or_else(useless)?.to_bytes();
        let model = Model::from_bytes(&stored)
            .ok_or_else(|| Failure("the model cannot be read back from its own bytes".into()))?;
        measure(&mut Typed(model), &pages, &mut rng, cpu_time)
    } else {
        let dictionary = zstd::dict::from_samples(&sample, DICTIONARY).map_err(|_| useless())?;
        let mut codec = Zstd::new(&dictionary).map_err(|_| useless())?;
        measure(&mut codec, &pages, &mut rng, cpu_time)
    }
}

fn measure(
    codec: &mut impl Codec,
    pages: &Pages,
    rng: &mut Xoshiro256PlusPlus,
    cpu_time: fn() -> Duration,
) -> Result<Done> {
    // The memory is touched first, so that encoding does not include its allocation by the kernel.
    let mut stored = vec![1; pages.bytes.len() / 2];
    stored.clear();
    let mut frames = Vec::with_capacity(pages.numbers.len());
    let mut kept = Vec::new();
    let mut refused = 0;
    let mut context = PageContext {
        number: 0,
        pages: pages.count,
        reserved: pages.reserved,
    };
    let start = cpu_time();
    for (number, page) in pages.each() {
        context.number = number;
        let from = stored.len();
        if !codec.encode(page, &context, &mut kept, &mut stored) {
            stored.truncate(from);
            refused += 1;
            continue;
        }
        let to = stored.len();
        frames.push(Frame {
            from,
            to,
            payload_sum: xxh3_64(&stored[from..to]),
            page_sum: xxh3_64(&kept),
        });
    }
    let encoding = cpu_time().saturating_sub(start).as_secs_f64();
    let mut page = vec![0; pages.size];
    // The encoder's own check is not relied on.
    if refused == 0 {
        for (frame, (number, raw)) in frames.iter().zip(pages.each()) {
            if !(codec.decode(&stored[frame.from..frame.to], &mut page) && same_cells(raw, &page)) {
                return Err(Failure(format!(
                    "page {number} was decoded with other cells"
                )));
            }
        }
    }
    frames.shuffle(rng);
    let mut times = Vec::with_capacity(frames.len());
    for frame in &frames {
        let start = Instant::now();
        let payload = &stored[frame.from..frame.to];
        let right = xxh3_64(payload) == frame.payload_sum
            && codec.decode(payload, &mut page)
            && xxh3_64(&page) == frame.page_sum;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        if !right {
            return Err(Failure("a decoded page differs".into()));
        }
    }
    let clock: Vec<f64> = (0..100_001)
        .map(|_| Instant::now().elapsed().as_secs_f64() * 1e6)
        .collect();
    let figures = [
        (MEDIAN_US, median(times.clone())),
        (P99_US, quantile(times, 0.99)),
        (CLOCK_US, median(clock)),
        (ENCODE_MB_S, pages.bytes.len() as f64 / 1e6 / encoding),
        (RAW_MIB, (frames.len() * pages.size) as f64 / MIB),
        (PAYLOAD_MIB, stored.len() as f64 / MIB),
        (REFUSED, f64::from(refused)),
    ];
    Ok(Done {
        pages: frames.len() as u64,
        figures: figures.map(|(n, v)| (n.to_owned(), v)).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_codecs_code_every_page() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("t.db");
        crate::tpch::generate(0.01, &path).expect("the data are generated");
        for typed in [true, false] {
            let done = run(&path, typed, 1, || Duration::ZERO).expect("pages come back");
            assert!(done.pages > 1000);
            assert_eq!(done.figures[REFUSED], 0.0);
            assert!(done.figures[PAYLOAD_MIB] < done.figures[RAW_MIB]);
            assert!(done.figures[MEDIAN_US] <= done.figures[P99_US]);
        }
    }
}

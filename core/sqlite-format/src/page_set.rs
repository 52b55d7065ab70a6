//! Sets of page numbers.

/// The words of a chunk, each for 64 pages.
const WORDS: usize = 64;
const CHUNK: usize = WORDS * 64;

/// A set of page numbers. Its memory grows with the number of chunks that have pages.
#[derive(Debug, Default)]
pub struct PageSet {
    chunks: Vec<Option<Box<[u64; WORDS]>>>,
    count: u64,
}

impl PageSet {
    /// Whether `page` is in the set.
    pub fn contains(&self, page: u32) -> bool {
        let chunk = self.chunks.get(page as usize / CHUNK);
        let word = chunk.and_then(|c| c.as_ref()?.get(page as usize % CHUNK / 64));
        word.is_some_and(|w| w & (1 << (page % 64)) != 0)
    }

    /// The number of pages in the set.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The pages of the set, ascending.
    pub fn pages(&self) -> impl Iterator<Item = u32> {
        let chunks = self.chunks.iter().zip(0u32..);
        let words = chunks.flat_map(|(chunk, i)| {
            let words = chunk.iter().flat_map(|words| words.iter()).zip(0u32..);
            words.map(move |(word, at)| (word, i * WORDS as u32 + at))
        });
        words.flat_map(|(word, i)| {
            let set = (0..64u32).filter(move |bit| word & (1u64 << bit) != 0);
            set.map(move |bit| i * 64 + bit)
        })
    }

    /// Adds all pages of `other`. Returns whether all of them were new.
    pub fn merge(&mut self, other: &PageSet) -> bool {
        let mut apart = true;
        for page in other.pages() {
            apart &= self.insert(page);
        }
        apart
    }

    /// Adds `page`. Returns whether it was new.
    pub fn insert(&mut self, page: u32) -> bool {
        let at = page as usize / CHUNK;
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, || None);
        }
        let Some(chunk) = self.chunks.get_mut(at) else {
            return false;
        };
        let chunk = chunk.get_or_insert_with(|| Box::new([0; WORDS]));
        let Some(word) = chunk.get_mut(page as usize % CHUNK / 64) else {
            return false;
        };
        let bit = 1u64 << (page % 64);
        let new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(new);
        new
    }
}

//! A uniform sample of a stream of pages, within a number of bytes.

/// Pages drawn so that each page offered so far is equally likely to be among them.
#[derive(Default)]
pub(super) struct Reservoir {
    pages: Vec<Vec<u8>>,
    bytes: usize,
    offered: u64,
}

/// The next number of a small generator (SplitMix64).
fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *random;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A number below `n` (0 when `n` is 0).
fn below(random: &mut u64, n: u64) -> u64 {
    ((u128::from(next(random)) * u128::from(n)) >> 64) as u64
}

impl Reservoir {
    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Pages held.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The pages, in the order of their places.
    pub(super) fn into_pages(self) -> Vec<Vec<u8>> {
        self.pages
    }

    /// Offers a page. If it is drawn it is kept, perhaps in place of another one. At most `limit`
    /// bytes are held afterwards.
    pub(super) fn offer(&mut self, page: &[u8], limit: usize, random: &mut u64) {
        self.offered += 1;
        if self.bytes + page.len() <= limit {
            self.bytes += page.len();
            self.pages.push(page.to_vec());
            return;
        }
        let drawn = usize::try_from(below(random, self.offered)).unwrap_or(usize::MAX);
        if let Some(place) = self.pages.get_mut(drawn) {
            self.bytes = self.bytes - place.len() + page.len();
            place.clear();
            place.extend_from_slice(page);
        }
        while self.bytes > limit && !self.pages.is_empty() {
            self.thin(random);
        }
    }

    /// Removes one page at random.
    pub(super) fn thin(&mut self, random: &mut u64) {
        let drawn = below(random, self.pages.len() as u64) as usize;
        if drawn < self.pages.len() {
            self.bytes -= self.pages.swap_remove(drawn).len();
        }
    }
}

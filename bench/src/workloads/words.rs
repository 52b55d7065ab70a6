//! A vocabulary of made-up words, with the frequencies of a natural language.

use rand::RngExt as _;

use super::Random;

const STARTS: [&str; 24] = [
    "b", "br", "c", "ch", "d", "dr", "f", "fl", "g", "gr", "h", "j", "l", "m", "n", "p", "pr",
    "qu", "r", "s", "st", "t", "tr", "v",
];
const VOWELS: [&str; 10] = ["a", "e", "i", "o", "u", "ea", "ou", "ai", "io", "y"];
const ENDS: [&str; 16] = [
    "", "", "", "n", "r", "s", "t", "l", "m", "nd", "st", "ck", "ng", "rt", "nt", "th",
];

/// Words and their frequencies: that of rank `r` is proportional to 1 / (r + 2), after Zipf and
/// Mandelbrot.
pub(super) struct Words {
    words: Vec<String>,
    /// Sums of the frequencies up to each word.
    sums: Vec<f64>,
}

impl Words {
    /// A vocabulary of `count` different words. More frequent words are shorter.
    pub(super) fn new(count: usize, random: &mut Random) -> Words {
        let mut known = std::collections::HashSet::new();
        let mut words = Vec::with_capacity(count);
        while words.len() < count {
            let most = 1 + words.len().min(9_999) / 200;
            let syllables = random.random_range(1..=most.clamp(1, 4));
            let word: String = (0..syllables)
                .flat_map(|_| {
                    [
                        pick(random, &STARTS),
                        pick(random, &VOWELS),
                        pick(random, &ENDS),
                    ]
                })
                .collect();
            if known.insert(word.clone()) {
                words.push(word);
            }
        }
        let sums = (0..count)
            .scan(0.0, |sum, rank| {
                *sum += 1.0 / (rank as f64 + 2.0);
                Some(*sum)
            })
            .collect();
        Words { words, sums }
    }

    /// A random word, by its frequency.
    pub(super) fn word(&self, random: &mut Random) -> &str {
        let all = self.sums.last().copied().unwrap_or(0.0);
        let drawn = random.random::<f64>() * all;
        let at = self.sums.partition_point(|sum| *sum < drawn);
        self.words.get(at).map_or("", String::as_str)
    }

    /// A sentence of `count` words, with a capital letter at the beginning, commas and a full stop.
    pub(super) fn sentence(&self, count: usize, random: &mut Random) -> String {
        let mut text = capital(self.word(random));
        for _ in 1..count {
            if random.random_ratio(1, 12) {
                text.push(',');
            }
            text.push(' ');
            text.push_str(self.word(random));
        }
        text.push('.');
        text
    }
}

/// One of several values, with equal probability.
pub(super) fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.random_range(0..from.len())]
}

/// The word with a capital first letter.
pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
        .unwrap_or_default()
}

/// Milliseconds since 1970 in the form of ISO 8601, in UTC.
pub(super) fn iso(ms: i64) -> String {
    // Days to a civil date: H. Hinnant, "chrono-compatible low-level date algorithms".
    let days = ms.div_euclid(86_400_000) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + i64::from(month <= 2);
    let ms = ms.rem_euclid(86_400_000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        ms / 3_600_000,
        ms / 60_000 % 60,
        ms / 1_000 % 60,
        ms % 1_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn frequent_words_occur_often() {
        let random = &mut Random::seed_from_u64(7);
        let words = Words::new(2_000, random);
        let drawn: Vec<&str> = (0..20_000).map(|_| words.word(random)).collect();
        let count = |word: &str| drawn.iter().filter(|w| **w == word).count();
        assert!(count(&words.words[0]) > 10 * count(&words.words[100]));
        assert!(words.sentence(9, random).split(' ').count() == 9);
    }

    #[test]
    fn times_equal_those_of_sqlite() {
        let con = rusqlite::Connection::open_in_memory().expect("a database in memory");
        for ms in [0, 1, 951_782_399_999, 951_782_400_000, 1_767_225_599_123] {
            let theirs: String = con
                .query_row(
                    "SELECT strftime('%Y-%m-%dT%H:%M:%S', ?1 / 1000, 'unixepoch')",
                    [ms],
                    |r| r.get(0),
                )
                .expect("a time");
            assert_eq!(iso(ms), format!("{theirs}.{:03}Z", ms % 1000));
        }
    }
}

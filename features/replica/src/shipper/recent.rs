//! The newest deltas, so that they are merged without reading them from the bucket.

/// The most bytes that are kept.
const BYTES_MAX: usize = 16 << 20;

/// Names and bytes of objects, the oldest first.
#[derive(Default)]
pub(crate) struct Recent {
    objects: Vec<(String, Vec<u8>)>,
    bytes: usize,
}

impl Recent {
    /// Keeps an object. Drops all others if they become too large together.
    pub(crate) fn keep(&mut self, name: String, bytes: Vec<u8>) {
        if self.bytes + bytes.len() > BYTES_MAX {
            self.clear();
        }
        if bytes.len() <= BYTES_MAX {
            self.bytes += bytes.len();
            self.objects.push((name, bytes));
        }
    }

    /// The bytes of an object, if they are kept.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        let found = self.objects.iter().find(|(kept, _)| kept == name);
        found.map(|(_, bytes)| bytes.as_slice())
    }

    /// Drops all.
    pub(crate) fn clear(&mut self) {
        *self = Recent::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let mut recent = Recent::default();
        for n in 0..40 {
            recent.keep(format!("{n}"), vec![n; 1 << 20]);
            assert!(recent.bytes <= BYTES_MAX);
        }
        assert_eq!(recent.get("39"), Some(&vec![39; 1 << 20][..]));
        assert_eq!(recent.get("3"), None);
        recent.keep("large".into(), vec![0; BYTES_MAX + 1]);
        assert_eq!(recent.get("large"), None);
    }
}

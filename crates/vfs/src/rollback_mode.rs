//! Showing a database in WAL mode as one in a rollback mode, where there can be no WAL.

/// The two bytes of the first page that hold the journal mode; 2 means WAL.
const VERSIONS: std::ops::Range<u64> = 18..20;

/// Changes bytes of a database, which begin at `offset`, so that they show a rollback mode.
pub(crate) fn show(bytes: &mut [u8], offset: u64) {
    let end = offset + bytes.len() as u64;
    for at in VERSIONS.filter(|at| (offset..end).contains(at)) {
        let byte = usize::try_from(at - offset)
            .ok()
            .and_then(|i| bytes.get_mut(i));
        if let Some(version) = byte.filter(|v| **v == 2) {
            *version = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_journal_mode_changes() {
        let mut page = [2u8; 100];
        show(&mut page, 0);
        let changed: Vec<usize> = (0..100).filter(|i| page[*i] == 1).collect();
        assert_eq!(changed, [18, 19]);
        let (mut part, mut after) = ([2u8; 4], [2u8; 4]);
        show(&mut part, 16);
        show(&mut after, 20);
        assert_eq!((part, after), ([2, 2, 1, 1], [2; 4]));
    }
}

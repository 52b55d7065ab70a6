//! Names of URI parameters: which are known, and the likely correction of an unknown one, also of a
//! PRAGMA.
//!
//! SQLite ignores unknown parameters, and programs rely on that. So an unknown parameter is an
//! error only if the URI itself names this VFS and the parameter does not begin with `_`, as
//! drivers' parameters do, or if it looks like one of Densite's: at most [`SLIPS`] characters are
//! wrong, missing, added or exchanged.

use densite_sqlite::FileName;

/// Our URI parameters. `x_tuning` is for tests.
const OURS: [&str; 12] = [
    "level",
    "threads",
    "decoded_cache",
    "run_pages",
    "codec",
    "readahead",
    "maintain",
    "densite",
    "ca_file",
    "timeout",
    "cache_dir",
    "cache_size",
];
/// SQLite's own, including those of its VFSes and extensions (memdb, multiplex, RBU, encryption).
const SQLITES: [&str; 22] = [
    "vfs",
    "mode",
    "cache",
    "psow",
    "nolock",
    "immutable",
    "modeof",
    "ptr",
    "sz",
    "max",
    "freeonclose",
    "reserve",
    "exclusive",
    "readonly_shm",
    "8_3_names",
    "chunksize",
    "truncate",
    "key",
    "hexkey",
    "textkey",
    "rbu_memory",
    "rbu_exclusive_checkpoint",
];
const FOR_TESTS: &str = "x_tuning";
/// The greatest number of differences at which two names look alike.
const SLIPS: usize = 2;

/// Checks the URI parameters of a name that was opened through the VFS `vfs`.
///
/// # Errors
/// A sentence that names the unknown parameter and the nearest known one.
pub(crate) fn check_parameters(name: FileName<'_>, vfs: &str) -> Result<(), String> {
    let is_named = name
        .parameter(c"vfs")
        .is_some_and(|named| named.to_bytes() == vfs.as_bytes());
    for key in name.keys() {
        check_parameter(&key.to_string_lossy(), is_named)?;
    }
    Ok(())
}

fn check_parameter(key: &str, is_named: bool) -> Result<(), String> {
    if OURS.contains(&key) || SQLITES.contains(&key) || key == FOR_TESTS {
        return Ok(());
    }
    let (nearest, slips) = nearest(key, &OURS);
    if slips > SLIPS && (!is_named || key.starts_with('_')) {
        return Ok(());
    }
    Err(format!(
        "the URI parameter {key} is not known: did you mean {nearest}?"
    ))
}

/// The known name with the fewest differences, and their number.
pub(crate) fn nearest<'a>(name: &str, known: &[&'a str]) -> (&'a str, usize) {
    let all = known.iter().map(|known| (*known, slips(name, known)));
    all.min_by_key(|(_, slips)| *slips)
        .unwrap_or(("", usize::MAX))
}

/// The number of characters to change, add, remove, or exchange with the next one, to turn one name
/// into the other. Case does not count.
fn slips(a: &str, b: &str) -> usize {
    let letters = |name: &str| name.to_ascii_lowercase().chars().collect::<Vec<char>>();
    let (a, b) = (letters(a), letters(b));
    let at = |row: &[usize], i: usize| row.get(i).copied().unwrap_or(usize::MAX / 2);
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (at(&last, j) + usize::from(x != y))
                .min(at(&last, j + 1) + 1)
                .min(at(&row, j) + 1);
            let is_exchanged = i > 0 && j > 0 && a.get(i - 1) == Some(y) && b.get(j - 1) == Some(x);
            if is_exchanged {
                least = least.min(at(&before, j - 1) + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    at(&last, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted() {
        for (a, b, n) in [
            ("level", "level", 0),
            ("levle", "level", 1),
            ("leve", "level", 1),
            ("Levle", "level", 1),
            ("LEVEL", "level", 0),
            ("thread", "threads", 1),
            ("", "abc", 3),
            ("codec", "level", 4),
        ] {
            assert_eq!((slips(a, b), slips(b, a)), (n, n), "{a} {b}");
        }
    }

    #[test]
    fn parameters_that_look_like_ours_are_errors() {
        for key in [
            "levle",
            "LEVEL",
            "_level",
            "treads",
            "decodedcache",
            "maintian",
        ] {
            let said = check_parameter(key, false).expect_err(key);
            assert!(
                said.contains(key) && said.contains("did you mean"),
                "{said}"
            );
        }
    }

    #[test]
    fn unknown_parameters_are_ignored_unless_the_uri_names_this_vfs() {
        for (key, is_named, is_fine) in [
            ("application", false, true),
            ("application", true, false),
            ("_busy_timeout", true, true),
            ("rbu_exclusive_checkpoint", true, true),
            ("mode", false, true),
        ] {
            assert_eq!(check_parameter(key, is_named).is_ok(), is_fine, "{key}");
        }
    }
}

//! Reading the end word from its file.
//!
//! A process can read the word while another process writes it. Then the checksum is wrong, and the
//! word is read again. The bytes are in [`crate::format::word`].

use crate::Result;
use crate::files::{END, Files};
use crate::format::word::{EndWord, WORD_LEN};
use densite_disk::{File, OpenMode};

/// How often a word is read again while another process writes it.
const TRIES: u32 = 1000;

/// The end word in an open file, read once; `None` if the file holds no valid word.
///
/// # Errors
/// `Io`.
pub(crate) fn read_word(file: &dyn File, files: &Files) -> Result<Option<EndWord>> {
    read_word_at(file, files, 0)
}

/// As [`read_word`], for a word that begins at this offset.
pub(crate) fn read_word_at(file: &dyn File, files: &Files, at: u64) -> Result<Option<EndWord>> {
    let mut bytes = [0; WORD_LEN];
    let got = file.read_at(&mut bytes, at)?;
    Ok(bytes.get(..got).and_then(|b| EndWord::decode(b, files.id)))
}

/// The end word in an open file, read again while another process writes it; `None` if no valid
/// word appears.
///
/// # Errors
/// `Io`.
pub(crate) fn read_whole_word(file: &dyn File, files: &Files) -> Result<Option<EndWord>> {
    for _ in 0..TRIES {
        if let Some(word) = read_word(file, files)? {
            return Ok(Some(word));
        }
        std::thread::yield_now();
    }
    Ok(None)
}

/// The end word of a log, read once; `None` if there is no file or no valid word.
///
/// # Errors
/// `Io`, `Damaged`.
pub(crate) fn find_word(files: &Files) -> Result<Option<EndWord>> {
    let file = files.open(END, OpenMode::Read)?;
    file.map_or(Ok(None), |file| read_word(file.as_ref(), files))
}

/// The end word of a log, read again while another process writes it; `None` as for
/// [`read_whole_word`], and if there is no file.
///
/// # Errors
/// `Io`, `Damaged`.
pub(crate) fn find_whole_word(files: &Files) -> Result<Option<EndWord>> {
    let file = files.open(END, OpenMode::Read)?;
    file.map_or(Ok(None), |file| read_whole_word(file.as_ref(), files))
}

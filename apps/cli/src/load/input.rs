//! The text of a file: decompressed, and converted to UTF-8.
//!
//! gzip and zstd are recognised by their first bytes, which no text begins with; a byte order mark
//! names UTF-8 or UTF-16. Bytes that the encoding does not have are an error, never a replacement
//! character.

use super::gzip::Members;
use super::{Bad, foreign};
use crate::args::FileFormat;
use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::ops::Range;
use std::rc::Rc;

const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// The beginning of a file, by which it is recognised: as far as the mark of a tar archive.
const MARK: usize = 512;
const BUFFER: usize = 1 << 16;
/// The largest window of zstd, as a power of two.
const WINDOW: u32 = 31;

/// The text of a file, in UTF-8 unless its bytes are not.
pub(super) type Text = Box<dyn BufRead>;

/// How much of a file was read.
#[derive(Clone, Default)]
pub(super) struct Input(Rc<Cell<u64>>);

impl Input {
    /// Bytes of the file itself, compressed or not.
    pub(super) fn bytes_read(&self) -> u64 {
        self.0.get()
    }
}

struct Counted<R> {
    reader: R,
    bytes: Input,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buf)?;
        self.bytes.0.set(self.bytes.0.get() + read as u64);
        Ok(read)
    }
}

/// The problem of a file that cannot be read: the system's, or that it is damaged.
pub(super) fn unread(e: &io::Error) -> Bad {
    match (e.raw_os_error(), e.kind()) {
        // A command that failed is no damage, either.
        (Some(_), _) | (None, io::ErrorKind::BrokenPipe) => {
            Bad::file(format!("cannot be read: {e}"))
        }
        (None, _) => Bad::damaged(format!("cannot be read: {e}")),
    }
}

/// Opens the text of a file. Without an encoding, a byte order mark names it, or it is UTF-8.
/// `problem` gets its first bytes, and says whether they are of another format.
pub(super) fn text(
    reader: impl Read + 'static,
    encoding: Option<&'static Encoding>,
    format: FileFormat,
    problem: impl Fn(&[u8]) -> Option<String>,
) -> Result<(Input, Text), Bad> {
    let input = Input::default();
    let counted = Counted {
        reader,
        bytes: input.clone(),
    };
    let counted = BufReader::with_capacity(BUFFER, counted);
    let mut plain = decompressed(counted).map_err(|e| unread(&e))?;
    let first = peek(&mut plain).map_err(|e| unread(&e))?;
    if let Some(problem) = foreign::problem(&first, Some(format)) {
        return Err(Bad::file(problem));
    }
    if let Some(name) = foreign::unmarked(&first).filter(|_| encoding.is_none()) {
        return Err(Bad::file(format!(
            "seems to be {name} without a byte order mark; give --encoding {name}"
        )));
    }
    if let Some(problem) = problem(&first) {
        return Err(Bad::file(problem));
    }
    let text = converted(first, plain, encoding);
    Ok((input, text))
}

/// The file for a reader that goes back and forth: itself, or its decompressed contents in a
/// temporary file without a name.
pub(super) fn plain(mut file: File) -> Result<File, Bad> {
    let first = peek(&mut file).map_err(|e| unread(&e))?;
    file.rewind().map_err(|e| unread(&e))?;
    if let Some(problem) = foreign::problem(&first, Some(FileFormat::Parquet)) {
        return Err(Bad::file(problem));
    }
    if compression(&first).is_none() {
        return no_text(&first).map(|()| file);
    }
    let mut all = decompressed(BufReader::with_capacity(BUFFER, file)).map_err(|e| unread(&e))?;
    let unwritten = |e: io::Error| {
        Bad::file(format!(
            "cannot be decompressed to a temporary file in {}: {e}; TMPDIR names another place",
            std::env::temp_dir().display()
        ))
    };
    let mut plain = tempfile::tempfile().map_err(unwritten)?;
    loop {
        let bytes = all.fill_buf().map_err(|e| unread(&e))?;
        if bytes.is_empty() {
            break;
        }
        plain.write_all(bytes).map_err(unwritten)?;
        let written = bytes.len();
        all.consume(written);
    }
    plain.rewind().map_err(unwritten)?;
    let first = peek(&mut plain).map_err(|e| unread(&e))?;
    plain.rewind().map_err(unwritten)?;
    if let Some(problem) = foreign::problem(&first, Some(FileFormat::Parquet)) {
        return Err(Bad::file(problem));
    }
    no_text(&first).map(|()| plain)
}

/// Refuses a text in the place of Parquet.
fn no_text(first: &[u8]) -> Result<(), Bad> {
    match foreign::other_text(first, FileFormat::Parquet, true) {
        Some(problem) => Err(Bad::file(problem)),
        None => Ok(()),
    }
}

/// The first bytes, which are read again.
pub(super) fn peek(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut first = Vec::with_capacity(MARK);
    reader.take(MARK as u64).read_to_end(&mut first)?;
    Ok(first)
}

/// A compression that is read.
enum Compression {
    Gzip,
    Zstd,
}

fn compression(first: &[u8]) -> Option<Compression> {
    // Files of parallel zstd begin with a frame that is skipped.
    let skips = |four: &[u8]| matches!(four, [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
    match first {
        _ if first.starts_with(GZIP) => Some(Compression::Gzip),
        _ if first.starts_with(ZSTD) || first.get(..4).is_some_and(skips) => {
            Some(Compression::Zstd)
        }
        _ => None,
    }
}

fn decompressed(mut reader: BufReader<impl Read + 'static>) -> io::Result<Box<dyn BufRead>> {
    let first = peek(&mut reader)?;
    let compression = compression(&first);
    let all = io::Cursor::new(first).chain(reader);
    Ok(match compression {
        Some(Compression::Gzip) => buffered(Told("gzip", Members::new(all))),
        Some(Compression::Zstd) => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(all)?;
            // As far as `zstd --long=31` goes. The memory is taken as the window is filled.
            decoder.window_log_max(WINDOW)?;
            buffered(Told("zstd", decoder))
        }
        None => Box::new(all),
    })
}

fn buffered(reader: impl Read + 'static) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(BUFFER, reader))
}

/// Names the compression in errors.
struct Told<R>(&'static str, R);

impl<R: Read> Read for Told<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1.read(buf).map_err(|e| match e.raw_os_error() {
            Some(_) => e,
            None => io::Error::other(format!("its {} data is damaged or cut off: {e}", self.0)),
        })
    }
}

/// The text of the first bytes and of what follows them.
fn converted(
    first: Vec<u8>,
    reader: Box<dyn BufRead>,
    encoding: Option<&'static Encoding>,
) -> Text {
    let by_mark = Encoding::for_bom(&first);
    // A mark that contradicts the given encoding is text of that encoding.
    let (encoding, skipped) = match (encoding, by_mark) {
        (None, Some((encoding, len))) => (encoding, len),
        (Some(given), Some((encoding, len))) if given == encoding => (given, len),
        (given, _) => (given.unwrap_or(UTF_8), 0),
    };
    let mut all = io::Cursor::new(first).chain(reader);
    all.consume(skipped);
    // UTF-8 is checked where line and column are known.
    match encoding == UTF_8 {
        true => Box::new(all),
        false => Box::new(Converting {
            reader: all,
            decoder: encoding.new_decoder_without_bom_handling(),
            bytes: 0,
            text: vec![0; BUFFER],
            unread: 0..0,
            is_over: false,
        }),
    }
}

/// Text of another encoding as UTF-8.
struct Converting<R> {
    reader: R,
    decoder: Decoder,
    /// Bytes that were converted.
    bytes: u64,
    /// A buffer of converted text. The decoder needs room for a whole character.
    text: Vec<u8>,
    /// The part of it that was not read yet.
    unread: Range<usize>,
    is_over: bool,
}

impl<R: BufRead> BufRead for Converting<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.unread.is_empty() && !self.is_over {
            let bytes = self.reader.fill_buf()?;
            let is_last = bytes.is_empty();
            let (result, read, written) =
                (self.decoder).decode_to_utf8_without_replacement(bytes, &mut self.text, is_last);
            self.reader.consume(read);
            self.bytes += read as u64;
            self.unread = 0..written;
            match result {
                DecoderResult::InputEmpty => self.is_over = is_last,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => {
                    let name = self.decoder.encoding().name();
                    let at = self.bytes;
                    return Err(io::Error::other(format!(
                        "its bytes before number {at} are not {name}; name its encoding with --encoding"
                    )));
                }
            }
        }
        Ok(self.text.get(self.unread.clone()).unwrap_or_default())
    }

    fn consume(&mut self, read: usize) {
        self.unread.start = (self.unread.start + read).min(self.unread.end);
    }
}

impl<R: BufRead> Read for Converting<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buf)?;
        self.consume(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{UTF_16BE, WINDOWS_1252};

    fn read(bytes: &[u8], encoding: Option<&'static Encoding>) -> Result<Vec<u8>, String> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("written");
        std::io::Seek::rewind(&mut file).expect("rewound");
        let (input, mut text) =
            text(file, encoding, FileFormat::Csv, |_| None).map_err(|bad| bad.problem)?;
        let mut all = Vec::new();
        text.read_to_end(&mut all).map_err(|e| e.to_string())?;
        assert_eq!(input.bytes_read(), bytes.len() as u64);
        Ok(all)
    }

    #[test]
    fn encodings_become_utf_8() {
        let little: Vec<u8> = "\u{feff}é😀x"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let big: Vec<u8> = "é😀".encode_utf16().flat_map(u16::to_be_bytes).collect();
        for (bytes, encoding, text) in [
            (&b"\xef\xbb\xbfa\xff"[..], None, &b"a\xff"[..]),
            (b"", None, b""),
            (b"a", None, b"a"),
            (&little, None, "é😀x".as_bytes()),
            (&big, Some(UTF_16BE), "é😀".as_bytes()),
            (b"caf\xe9", Some(WINDOWS_1252), "café".as_bytes()),
        ] {
            assert_eq!(read(bytes, encoding).as_deref(), Ok(text), "{bytes:?}");
        }
        let odd = read(&little[..little.len() - 1], None).expect_err("half a character");
        assert!(odd.contains("not UTF-16LE"), "{odd}");
        // Longer than the buffers, with characters across their ends.
        let long = "aé😀".repeat(100_000);
        let bytes: Vec<u8> = long.encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(read(&bytes, Some(UTF_16BE)).as_deref(), Ok(long.as_bytes()));
    }

    #[test]
    fn compressed_files_are_recognised_and_checked() {
        let text = b"id,name\n1,a\n".repeat(10_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).expect("memory");
        let mut gzip = gzip.finish().expect("memory");
        let zstd = zstd::encode_all(&text[..], 3).expect("memory");
        assert_eq!(read(&zstd, None).as_deref(), Ok(&text[..]));
        assert_eq!(read(&gzip, None).as_deref(), Ok(&text[..]));
        // Blocks of a tape, and two members with zeros between them.
        let zeros = [0; 3000];
        let padded = [&gzip[..], &zeros].concat();
        assert_eq!(read(&padded, None).as_deref(), Ok(&text[..]));
        let two = [&padded[..], &gzip].concat();
        assert_eq!(read(&two, None), Ok(text.repeat(2)));
        let other = read(&[&gzip[..], b"other"].concat(), None).expect_err("other bytes");
        assert!(other.contains("gzip data is damaged"), "{other}");
        // What `zstd --long=28` writes: its window has 256 MiB, of which the text needs little.
        let mut long = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("memory");
        long.window_log(28).expect("a window");
        long.write_all(&text).expect("memory");
        let long = long.finish().expect("memory");
        assert_eq!(read(&long, None).as_deref(), Ok(&text[..]));
        let cut = read(&gzip[..gzip.len() - 9], None).expect_err("cut off");
        assert!(cut.contains("gzip data is damaged or cut off"), "{cut}");
        let cut = read(&zstd[..zstd.len() - 9], None).expect_err("cut off");
        assert!(cut.contains("zstd data is damaged or cut off"), "{cut}");
        // Several files in one, as `cat a.gz b.gz` makes it.
        gzip.extend(gzip.clone());
        assert_eq!(read(&gzip, None).map(|all| all.len()), Ok(2 * text.len()));
    }
}

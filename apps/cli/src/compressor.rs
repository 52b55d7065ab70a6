//! Names that promise a compressed file.

use std::path::Path;

/// The command that makes files with the end of this name; `None` for a name without such an end.
pub(crate) fn of(path: &Path) -> Option<&'static str> {
    let end = path.extension()?.to_str()?.to_ascii_lowercase();
    Some(match end.as_str() {
        "gz" => "gzip",
        "zst" => "zstd",
        "xz" => "xz",
        "bz2" => "bzip2",
        "lz4" => "lz4",
        "lz" => "lzip",
        "br" => "brotli",
        _ => return None,
    })
}

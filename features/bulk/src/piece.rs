//! Checking values and appending them to those of a column.

/// Refuses text that is not UTF-8. The error shows the beginning of the text.
pub(crate) fn utf8(piece: &[u8]) -> Result<(), String> {
    match std::str::from_utf8(piece) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("text that is not UTF-8: b\"{}\"", start(piece))),
    }
}

/// Appends text or a blob to the bytes of a column, and its end to the ends.
#[inline]
pub(crate) fn append(ends: &mut Vec<i32>, bytes: &mut Vec<u8>, piece: &[u8]) -> Result<(), String> {
    let end = i32::try_from(bytes.len() + piece.len());
    let end = end.map_err(|_| "more than 2 GiB in one column of a batch".to_owned())?;
    bytes.extend_from_slice(piece);
    ends.push(end);
    Ok(())
}

/// The number as floating point, if that is exact.
pub(crate) fn exact(n: i64) -> Option<f64> {
    let x = n as f64;
    // The conversion back saturates, so the greatest integer is checked separately.
    (x as i64 == n && n != i64::MAX).then_some(x)
}

/// The message that an integer is not exact as floating point.
pub(crate) fn inexact(n: i64) -> String {
    format!(
        "the integer {n} is not exact as floating point, which its column has; use CAST(… AS TEXT)"
    )
}

fn start(bytes: &[u8]) -> String {
    bytes
        .iter()
        .take(40)
        .copied()
        .collect::<Vec<u8>>()
        .escape_ascii()
        .to_string()
}

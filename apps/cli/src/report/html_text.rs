//! Escapes and formats text for the page.

/// Escapes text for HTML elements and attributes. Markup loses its meaning, and control characters,
/// including those that change the direction of text, are shown as symbols.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                out.push('\u{fffd}');
            }
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// "1.4 MiB".
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        _ => indicatif::BinaryBytes(bytes).to_string(),
    }
}

/// "+1.4 MiB", "−1.4 MiB" or "the same".
pub(super) fn change(before: u64, now: u64) -> String {
    match (now > before, now.abs_diff(before)) {
        (_, 0) => "the same".into(),
        (true, more) => format!("+{}", size(more)),
        (false, less) => format!("\u{2212}{}", size(less)),
    }
}

/// "12.3 %", on one line.
pub(super) fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".into(),
        _ => format!("{:.1}\u{a0}%", 100.0 * part as f64 / whole as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(
            escaped("<script>\"a\" & 'b'\n\u{202e}</script>"),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\u{fffd}\u{fffd}&lt;/script&gt;"
        );
    }
}

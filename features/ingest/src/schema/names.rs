//! Names as SQL writes them: bare or quoted.

/// The content of a text that is quoted as a whole. A quote within is written twice.
pub(crate) fn in_quotes(text: &str, quote: char) -> Option<String> {
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        if c == quote && rest.next() != Some(quote) {
            return None;
        }
        out.push(c);
    }
    Some(out)
}

/// The content of a text in quotes or brackets; `None` for anything else.
pub(crate) fn quoted_name(text: &str) -> Option<String> {
    let in_brackets = || {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        (!inner.contains(']')).then(|| inner.to_owned())
    };
    let mut quotes = ['"', '`', '\''].into_iter();
    quotes
        .find_map(|quote| in_quotes(text, quote))
        .or_else(in_brackets)
}

/// Whether these are the same names in the same order. Case is ignored.
pub(crate) fn are_same<'a>(
    mut some: impl Iterator<Item = &'a String>,
    mut others: impl Iterator<Item = &'a String>,
) -> bool {
    loop {
        match (some.next(), others.next()) {
            (Some(a), Some(b)) if a.eq_ignore_ascii_case(b) => {}
            (a, b) => return a.is_none() && b.is_none(),
        }
    }
}

/// A name without its quotes, if it has any.
pub fn unquoted(text: &str) -> String {
    let text = text.trim();
    quoted_name(text).unwrap_or_else(|| text.to_owned())
}

/// The parts between commas. Commas in quotes or parentheses do not separate.
pub(crate) fn between_commas(text: &str) -> Vec<&str> {
    let (mut parts, mut from, mut open, mut depth) = (Vec::new(), 0, None, 0_usize);
    for (i, c) in text.char_indices() {
        match (open, c) {
            (Some(close), c) if c == close => open = None,
            (Some(_), _) => {}
            (None, '"' | '`' | '\'') => open = Some(c),
            (None, '[') => open = Some(']'),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(text.get(from..i).unwrap_or_default());
                from = i + 1;
            }
            (None, _) => {}
        }
    }
    parts.push(text.get(from..).unwrap_or_default());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_of_every_kind() {
        for (text, name) in [
            ("a", "a"),
            (" a b ", "a b"),
            ("\"a\"\"b\"", "a\"b"),
            ("`a``b`", "a`b"),
            ("'it''s'", "it's"),
            ("[a \"b\"]", "a \"b\""),
            ("\"", "\""),
            ("\"a\" || \"b\"", "\"a\" || \"b\""),
            ("[a] + [b]", "[a] + [b]"),
            ("''", ""),
        ] {
            assert_eq!(unquoted(text), name, "{text}");
        }
        assert_eq!(
            between_commas("a, \"b, \"\"c\", [d,e], `f,`, '',"),
            ["a", " \"b, \"\"c\"", " [d,e]", " `f,`", " ''", ""]
        );
        assert_eq!(between_commas("a(b, (c,)), d"), ["a(b, (c,))", " d"]);
    }
}

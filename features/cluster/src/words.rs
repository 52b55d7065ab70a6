//! Names in SQL statements.

use densite_ingest::parts::{Token, tokens, unquoted};

/// Whether one of the names in a statement is like this, in quotes or not; `None`: it cannot be
/// divided. Comments have no names.
pub(super) fn names(sql: &str, is_like: impl Fn(&str) -> bool) -> Option<bool> {
    let sql = without_comments(sql);
    let tokens = tokens(&sql).ok()?;
    Some(tokens.iter().any(|(_, token)| match token {
        Token::Word(word) => is_like(word),
        Token::Quoted(text) => is_like(&unquoted(text)),
        Token::Sign(_) => false,
    }))
}

/// A statement with a space in the place of each comment.
pub(super) fn without_comments(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    let mut quote = None;
    while let Some(c) = rest.chars().next() {
        let comment = match quote {
            Some(_) => None,
            None if rest.starts_with("--") => Some(rest.find('\n').unwrap_or(rest.len())),
            None if rest.starts_with("/*") => {
                let end = rest.get(2..).and_then(|text| text.find("*/"));
                Some(end.map_or(rest.len(), |end| end + 4))
            }
            None => None,
        };
        let len = comment.unwrap_or(c.len_utf8());
        match comment {
            Some(_) => out.push(' '),
            None => {
                quote = match (quote, c) {
                    (Some(close), c) if c == close => None,
                    (None, '\'' | '"' | '`') => Some(c),
                    (None, '[') => Some(']'),
                    (quote, _) => quote,
                };
                out.push(c);
            }
        }
        rest = rest.get(len..).unwrap_or_default();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_hide_no_names() {
        for (sql, plain) in [
            ("a -- it's\nb", "a  \nb"),
            ("a/* ' */b", "a b"),
            ("'--' \"/*\" [--] `--`", "'--' \"/*\" [--] `--`"),
            ("a /* b", "a  "),
            ("a -- b", "a  "),
            ("'it''s' -- é", "'it''s'  "),
        ] {
            assert_eq!(without_comments(sql), plain, "{sql}");
        }
        let own = |sql: &str| names(sql, |name| name.starts_with("densite_"));
        assert_eq!(own("drop table /* ' */ [densite_x]"), Some(true));
        assert_eq!(own("drop table \"densite_x\" -- '"), Some(true));
        assert_eq!(own("drop table x -- densite_x"), Some(false));
        assert_eq!(own("drop table 'x"), None);
    }
}

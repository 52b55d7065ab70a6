//! Expressions of `on_conflict='update(n = n + excluded.n)'`.
//!
//! They are evaluated twice: for readers of waiting rows, and when a row is applied. Both must give
//! the same value, and the log can come from anywhere. So an expression consists of columns,
//! literals, operators and the functions below: no subquery, no function of the application, no
//! time, no random number.

/// Built-in functions whose result depends on their arguments alone.
const FUNCTIONS: [&str; 37] = [
    "abs",
    "char",
    "coalesce",
    "format",
    "glob",
    "hex",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_extract",
    "json_insert",
    "json_object",
    "json_patch",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_type",
    "json_valid",
    "length",
    "lower",
    "ltrim",
    "max",
    "min",
    "nullif",
    "replace",
    "round",
    "rtrim",
    "substr",
    "substring",
    "trim",
    "typeof",
    "unicode",
    "upper",
];

/// Words before a parenthesis that are no functions.
const OPERATORS: [&str; 18] = [
    "and", "between", "case", "cast", "else", "end", "escape", "glob", "in", "is", "like", "not",
    "null", "or", "text", "then", "when", "from",
];

/// Words that begin something else than an expression of this kind.
const FORBIDDEN: [&str; 15] = [
    "current_date",
    "current_time",
    "current_timestamp",
    "exists",
    "filter",
    "match",
    "over",
    "raise",
    "regexp",
    "returning",
    "rowid",
    "oid",
    "_rowid_",
    "select",
    "values",
];

/// A part of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A bare word or a number.
    Word(&'a str),
    /// A name or text in quotes.
    Quoted(&'a str),
    /// Another character.
    Sign(char),
}

/// Divides a text into tokens, with their places.
///
/// # Errors
/// What is wrong with the text.
pub fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, String> {
    let mut found = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let token = match c {
            c if c.is_whitespace() => continue,
            // A blob's literal: the letter is no name of a column.
            'x' | 'X' if rest.next_if(|(_, next)| *next == '\'').is_some() => {
                let digits = text.get(at + 1..).unwrap_or_default();
                let end = digits.get(1..).and_then(|digits| digits.find('\''));
                let end = end.ok_or("' is not closed")? + at + 3;
                while rest.next_if(|(next, _)| *next < end).is_some() {}
                Token::Quoted(text.get(at + 1..end).unwrap_or_default())
            }
            '\'' | '"' | '`' | '[' => {
                let close = if c == '[' { ']' } else { c };
                let end = loop {
                    match rest.next() {
                        None => return Err(format!("{c} is not closed")),
                        Some((end, c)) if c == close => {
                            // A quote within is written twice.
                            if c == ']' || rest.next_if(|(_, next)| *next == close).is_none() {
                                break end + c.len_utf8();
                            }
                        }
                        Some(_) => {}
                    }
                };
                Token::Quoted(text.get(at..end).unwrap_or_default())
            }
            c if c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii() => {
                let mut end = at + c.len_utf8();
                while let Some((at, c)) = rest.next_if(|(_, c)| {
                    c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()
                }) {
                    end = at + c.len_utf8();
                }
                Token::Word(text.get(at..end).unwrap_or_default())
            }
            sign => Token::Sign(sign),
        };
        found.push((at, token));
    }
    Ok(found)
}

/// The place of the first sign or word at the top level that `wanted` accepts.
fn top_level(text: &str, wanted: impl Fn(Token<'_>) -> bool) -> Option<usize> {
    let (mut depth, mut found) = (0_i64, None);
    for (at, token) in tokens(text).ok()? {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth -= 1,
            token if depth == 0 && found.is_none() && wanted(token) => found = Some(at),
            _ => {}
        }
    }
    found
}

/// Divides `name = expression`. `None` for a name alone.
pub(crate) fn assignment(text: &str) -> Option<(&str, &str)> {
    let at = top_level(text, |token| token == Token::Sign('='))?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Divides `assignments WHERE condition`.
pub(crate) fn condition(text: &str) -> (&str, Option<&str>) {
    let is_where =
        |token: Token<'_>| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("where"));
    match top_level(text, is_where) {
        Some(at) => (
            text.get(..at).unwrap_or_default(),
            text.get(at + "where".len()..),
        ),
        None => (text, None),
    }
}

/// Checks that a text is one expression of this kind.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return Err("an expression is missing".to_owned());
    }
    let (mut depth, mut before) = (0, None);
    for (i, (at, token)) in tokens.iter().enumerate() {
        let next = tokens.get(i + 1).map(|(_, token)| *token);
        match token {
            Token::Sign(other) if !"+-*/%|&~<>=!(),.".contains(*other) => {
                return Err(format!("{other} has no place in it"));
            }
            Token::Sign('(') => depth += 1,
            Token::Sign(')') if depth == 0 => return Err(") closes nothing".to_owned()),
            Token::Sign(')') => depth -= 1,
            Token::Sign(',') if depth == 0 => return Err("it has a comma".to_owned()),
            // A comment hides what follows.
            Token::Sign(c @ ('-' | '*'))
                if before
                    == Some((
                        at.wrapping_sub(1),
                        Token::Sign(if *c == '-' { '-' } else { '/' }),
                    )) =>
            {
                return Err("it has a comment".to_owned());
            }
            Token::Quoted(_) if next == Some(Token::Sign('(')) => {
                return Err("the name of a function is quoted".to_owned());
            }
            Token::Word(word) => {
                let is = |list: &[&str]| list.iter().any(|w| w.eq_ignore_ascii_case(word));
                let opens = next == Some(Token::Sign('('));
                if is(&FORBIDDEN) {
                    return Err(format!("{word} is not allowed"));
                }
                if word.eq_ignore_ascii_case("in") && !opens {
                    return Err("IN needs a list in parentheses".to_owned());
                }
                if opens && !is(&FUNCTIONS) && !is(&OPERATORS) {
                    return Err(format!("the function {word} is not allowed"));
                }
            }
            _ => {}
        }
        before = Some((*at, *token));
    }
    match depth {
        0 => Ok(()),
        _ => Err("( is not closed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_columns_are_allowed() {
        for text in [
            "n + excluded.n",
            "max(at, excluded.at)",
            "CASE WHEN excluded.at > at THEN excluded.\"the name\" ELSE 'it''s' END",
            "n + 1.5e3 - - 1",
            "json_set(doc, '$.n', excluded.n) ->> '$.n'",
            "a IN (1, 2) AND NOT (b IS NULL) OR c LIKE '%;--'",
            "cast(a AS text) || x'00'",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn the_letter_of_a_blob_is_no_name() {
        let found = tokens("x = x'00' OR X'' = max(X, 'x') - x 'y'").expect("tokens");
        let words: Vec<&str> = (found.iter())
            .filter_map(|(_, token)| match token {
                Token::Word(word) => Some(*word),
                _ => None,
            })
            .collect();
        assert_eq!(words, ["x", "OR", "max", "X", "x"]);
        let blobs = found.iter().filter(|(at, token)| {
            matches!(token, Token::Quoted("'00'" | "''")) && matches!(at, 4 | 13)
        });
        assert_eq!(blobs.count(), 2, "{found:?}");
        assert!(tokens("x'00").is_err());
    }

    #[test]
    fn everything_else_is_refused() {
        for (text, part) in [
            ("", "missing"),
            ("(SELECT max(a) FROM t)", "SELECT"),
            ("random()", "random"),
            ("a(1)", "the function a"),
            ("\"random\"()", "quoted"),
            ("[random] ()", "quoted"),
            ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
            ("n; DROP TABLE t", ";"),
            ("n -- 1", "comment"),
            ("n /* 1 */", "comment"),
            ("n) OR (1", "closes nothing"),
            ("(n", "not closed"),
            ("'n", "not closed"),
            ("?1", "?"),
            (":a", ":"),
            ("a IN t", "IN"),
            ("n, m", "comma"),
            ("EXISTS (VALUES (1))", "EXISTS"),
            ("n + 1 RETURNING k", "RETURNING"),
        ] {
            let refused = check(text).expect_err(text);
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }

    #[test]
    fn assignments_and_conditions_are_divided() {
        assert_eq!(assignment("n = n = 1"), Some(("n ", " n = 1")));
        assert_eq!(assignment("\"=\" = (1 = 1)"), Some(("\"=\" ", " (1 = 1)")));
        assert_eq!(assignment("n"), None);
        assert_eq!(
            condition("a = 'where' WHERE b"),
            ("a = 'where' ", Some(" b"))
        );
        assert_eq!(condition("a = (b)"), ("a = (b)", None));
    }
}

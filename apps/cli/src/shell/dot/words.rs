//! Splits a dot command into words, as the sqlite3 shell does: a word can be in single or double
//! quotes, and a backslash in double quotes escapes the next character.

/// The words of a line.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(&first) = chars.peek() else {
            return Ok(words);
        };
        let mut word = String::new();
        if let Some(quote) = chars.next_if(|c| matches!(c, '"' | '\'')) {
            loop {
                match chars.next() {
                    None => return Err(format!("the quote {first} is not closed")),
                    Some(c) if c == quote => break,
                    Some('\\') if quote == '"' => word.push(escaped(&mut chars)),
                    Some(c) => word.push(c),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| !c.is_whitespace()) {
                word.push(c);
            }
        }
        words.push(word);
    }
}

/// The text without its backslashes, for arguments in which the sqlite3 shell knows them without
/// quotes too.
pub(super) fn unescaped(text: &str) -> String {
    let mut chars = text.chars();
    let mut plain = String::new();
    while let Some(c) = chars.next() {
        plain.push(if c == '\\' { escaped(&mut chars) } else { c });
    }
    plain
}

/// The character that follows a backslash.
fn escaped(chars: &mut impl Iterator<Item = char>) -> char {
    match chars.next() {
        Some('n') => '\n',
        Some('t') => '\t',
        Some('r') => '\r',
        Some(c) => c,
        None => '\\',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotes() {
        let words = |line| split(line).expect("words");
        assert_eq!(words("tables  a%  "), ["tables", "a%"]);
        assert_eq!(
            words(r#"a 'b "c\n' "d'\n\"e" ''"#),
            ["a", "b \"c\\n", "d'\n\"e", ""]
        );
        assert_eq!(words(r"read C:\x"), ["read", r"C:\x"]);
        assert!(split("a 'b").is_err());
        assert_eq!(unescaped(r"\t|\\"), "\t|\\");
    }
}

//! Names in SQL.

/// A name in double quotes, as SQL accepts it whatever characters it has.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_a_name_are_doubled() {
        assert_eq!(quoted("a b"), r#""a b""#);
        assert_eq!(quoted(r#"say "so""#), r#""say ""so""""#);
        assert_eq!(quoted(""), r#""""#);
    }
}

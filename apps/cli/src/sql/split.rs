//! Splits text into statements as it arrives, so that a large script is never in memory as a whole.
//!
//! A statement ends at a semicolon outside of quotes and comments. CREATE TRIGGER ends at a
//! semicolon after END, if END follows a semicolon. (These are the rules of `sqlite3_complete`.)

/// A statement and the line where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its text, comments included.
    pub(crate) sql: String,
    /// The line of its first word, from 1.
    pub(crate) line: u64,
}

/// The syntactic context of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Code,
    /// A quoted name or string, which ends at this character.
    Quoted(char),
    /// A comment to the end of the line.
    LineComment,
    /// A comment to `*/`.
    BlockComment,
}

/// The kind of a statement, as far as its first words show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No word yet.
    Blank,
    Explain,
    Create,
    Other,
    /// In a trigger.
    Trigger,
    /// In a trigger, after a semicolon.
    TriggerSemicolon,
    /// In a trigger, after a semicolon and END.
    TriggerEnd,
}

/// The state of the splitter between two lines.
#[derive(Debug)]
pub(crate) struct Splitter {
    text: String,
    within: Within,
    kind: Kind,
    line: u64,
    first_line: u64,
}

impl Splitter {
    /// The state at the start of the text.
    pub(crate) fn new() -> Splitter {
        Splitter {
            text: String::new(),
            within: Within::Code,
            kind: Kind::Blank,
            line: 1,
            first_line: 1,
        }
    }

    /// Whether no statement has begun, so the next line starts one.
    pub(crate) fn is_blank(&self) -> bool {
        self.kind == Kind::Blank && self.within == Within::Code
    }

    /// The line that comes next, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Passes over a line that is not SQL.
    pub(crate) fn skip(&mut self, line: &str) {
        self.line += u64::from(line.ends_with('\n'));
    }

    /// Takes the next line, including its line end, and returns the statements that end in it. A
    /// word, a quote or a comment mark must not be split between two calls.
    pub(crate) fn push(&mut self, line: &str) -> Vec<Piece> {
        let mut done = Vec::new();
        let mut chars = line.chars().peekable();
        let mut word = String::new();
        while let Some(c) = chars.next() {
            self.text.push(c);
            match self.within {
                Within::Code if c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii() => {
                    word.push(c.to_ascii_uppercase());
                    let more = chars.peek().is_some_and(|n| {
                        n.is_alphanumeric() || *n == '_' || *n == '$' || !n.is_ascii()
                    });
                    if !more {
                        self.word(&word);
                        word.clear();
                    }
                }
                Within::Code => {
                    let next = chars.peek().copied();
                    match (c, next) {
                        ('-', Some('-')) => self.within = Within::LineComment,
                        ('/', Some('*')) => {
                            self.text.extend(chars.next());
                            self.within = Within::BlockComment;
                        }
                        (';', _) => done.extend(self.semicolon()),
                        ('\'' | '"' | '`', _) => {
                            self.other();
                            self.within = Within::Quoted(c);
                        }
                        ('[', _) => {
                            self.other();
                            self.within = Within::Quoted(']');
                        }
                        _ if c.is_ascii_whitespace() => {}
                        _ => self.other(),
                    }
                }
                Within::Quoted(end) if c == end => self.within = Within::Code,
                Within::LineComment if c == '\n' => self.within = Within::Code,
                Within::BlockComment if c == '*' && chars.peek() == Some(&'/') => {
                    self.text.extend(chars.next());
                    self.within = Within::Code;
                }
                Within::Quoted(_) | Within::LineComment | Within::BlockComment => {}
            }
            if c == '\n' {
                self.line += 1;
            }
        }
        done
    }

    /// The rest at the end of the text: a last statement without a semicolon, complete or not.
    pub(crate) fn finish(self) -> Option<Piece> {
        self.has_begun().then_some(Piece {
            sql: self.text,
            line: self.first_line,
        })
    }

    /// Whether a statement has begun and not ended. A comment is not a statement.
    pub(crate) fn has_begun(&self) -> bool {
        self.kind != Kind::Blank
            || !matches!(
                self.within,
                Within::Code | Within::LineComment | Within::BlockComment
            )
    }

    fn begin(&mut self) {
        if self.kind == Kind::Blank {
            self.first_line = self.line;
        }
    }

    fn word(&mut self, word: &str) {
        self.begin();
        self.kind = match (self.kind, word) {
            (Kind::Blank, "EXPLAIN") | (Kind::Explain, "QUERY" | "PLAN") => Kind::Explain,
            (Kind::Blank | Kind::Explain, "CREATE") | (Kind::Create, "TEMP" | "TEMPORARY") => {
                Kind::Create
            }
            (Kind::Create, "TRIGGER") => Kind::Trigger,
            (Kind::TriggerSemicolon, "END") => Kind::TriggerEnd,
            (Kind::Trigger | Kind::TriggerSemicolon | Kind::TriggerEnd, _) => Kind::Trigger,
            (Kind::Blank | Kind::Explain | Kind::Create | Kind::Other, _) => Kind::Other,
        };
    }

    /// Notes a symbol or a quoted text.
    fn other(&mut self) {
        self.word("");
    }

    fn semicolon(&mut self) -> Option<Piece> {
        match self.kind {
            Kind::Trigger | Kind::TriggerSemicolon => {
                self.kind = Kind::TriggerSemicolon;
                None
            }
            Kind::Blank => {
                self.text.clear();
                None
            }
            Kind::Explain | Kind::Create | Kind::Other | Kind::TriggerEnd => {
                self.kind = Kind::Blank;
                Some(Piece {
                    sql: std::mem::take(&mut self.text),
                    line: self.first_line,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(String, u64)> {
        let mut s = Splitter::new();
        let mut pieces = Vec::new();
        for line in text.split_inclusive('\n') {
            pieces.extend(s.push(line));
        }
        pieces.extend(s.finish());
        pieces
            .into_iter()
            .map(|p| (p.sql.trim().to_string(), p.line))
            .collect()
    }

    fn texts(text: &str) -> Vec<String> {
        split(text).into_iter().map(|(sql, _)| sql).collect()
    }

    #[test]
    fn semicolons_and_lines() {
        assert_eq!(
            split("select 1; select 2;\n\n;;\nselect\n3\n"),
            [
                ("select 1;".into(), 1),
                ("select 2;".into(), 1),
                ("select\n3".into(), 4)
            ]
        );
        assert!(split("").is_empty());
        assert!(split(" ;; -- only; a comment\n /* and; \n another */ ;").is_empty());
    }

    #[test]
    fn quotes_and_comments_hide_semicolons() {
        for sql in [
            "select ';', \";\", `;`, [;] ;",
            "select 'it''s; one' ;",
            "select 1 -- ; '\n , 2;",
            "select 1 /* ; ' \n ; */ , 2;",
            "select 1 - 2 / 3 -- x\n;",
            "select '\n;\n';",
        ] {
            assert_eq!(texts(sql), [sql], "{sql}");
        }
    }

    #[test]
    fn triggers_are_one_statement() {
        for sql in [
            "create trigger t after insert on a begin select 1; update a set b = case when 1 then 2 end; end;",
            "CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN\nSELECT 1;\n-- c\nEND ;",
            "explain query plan create temporary trigger t delete on a begin select 'end;'; end;",
        ] {
            let two = format!("{sql} select 7;");
            assert_eq!(texts(&two), [sql, "select 7;"], "{sql}");
        }
        assert_eq!(texts("create table trigger_x (a); select 1;").len(), 2);
    }

    #[test]
    fn an_unfinished_quote_is_kept() {
        assert_eq!(texts("select 1; 'abc"), ["select 1;", "'abc"]);
    }
}

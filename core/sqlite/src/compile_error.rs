//! Why a statement does not compile. SQLite has one code for all reasons, `SQLITE_ERROR`, and tells
//! them apart only in its messages. This is the one place that reads them; a test compares it with
//! the messages of the SQLite that Densite links.

/// The beginnings of SQLite's messages.
const TABLE: &str = "no such table: ";
const COLUMN: &str = "no such column: ";
const FUNCTION: [&str; 3] = [
    "no such function: ",
    // In an index, a CHECK or a generated column.
    "unknown function: ",
    // The function exists, but not with so many arguments.
    "wrong number of arguments to function ",
];
const COLLATION: &str = "no such collation sequence: ";
const MODULE: &str = "no such module: ";
const TOKENIZER: [&str; 2] = ["no such tokenizer: ", "unknown tokenizer: "];
const UNSAFE: &str = "unsafe use of ";
const UNIQUE_KEY: &str = "ON CONFLICT clause does not match any PRIMARY KEY or UNIQUE constraint";

/// What a statement needs and SQLite does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompileError<'a> {
    /// The table or view of this name, which can have a schema in front of it.
    NoTable(&'a str),
    /// A column.
    NoColumn,
    /// A function, or one with so many arguments.
    NoFunction,
    /// A collation.
    NoCollation,
    /// The module of a virtual table.
    NoModule,
    /// A tokenizer of a full-text index.
    NoTokenizer,
    /// The right to use a function or a virtual table in the schema.
    NotTrusted,
    /// A PRIMARY KEY or UNIQUE constraint on the columns of ON CONFLICT.
    NoUniqueKey,
}

impl CompileError<'_> {
    /// The reason in SQLite's message, if it is one of these.
    pub fn of(message: &str) -> Option<CompileError<'_>> {
        use CompileError as E;
        let is_one =
            |beginnings: &[&str]| beginnings.iter().any(|words| message.starts_with(words));
        if let Some(name) = message.strip_prefix(TABLE) {
            return Some(E::NoTable(name));
        }
        let known: [(&[&str], CompileError<'_>); 7] = [
            (&[COLUMN], E::NoColumn),
            (&FUNCTION, E::NoFunction),
            (&[COLLATION], E::NoCollation),
            (&[MODULE], E::NoModule),
            (&TOKENIZER, E::NoTokenizer),
            (&[UNSAFE], E::NotTrusted),
            (&[UNIQUE_KEY], E::NoUniqueKey),
        ];
        known
            .into_iter()
            .find_map(|(beginnings, reason)| is_one(beginnings).then_some(reason))
    }

    /// Whether the connection lacks something that an application can give to its own connections.
    pub fn is_of_the_connection(self) -> bool {
        use CompileError as E;
        matches!(
            self,
            E::NoFunction | E::NoCollation | E::NoModule | E::NoTokenizer
        )
    }
}

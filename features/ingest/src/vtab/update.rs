//! What an UPDATE through an ingest table sets.
//!
//! SQLite passes whole rows to a virtual table, with the results of the statement's expressions. Of
//! two concurrent `SET n = n + 1`, one would be lost. So the statement's text is read: an expression
//! of the old row's columns is logged as that expression, and so is the part of WHERE that names
//! columns beside the key. Columns that are not set are not logged. If the text is anything else
//! than a simple UPDATE, the whole row is set.

use crate::schema::expression::{Token, assignment, check, condition, tokens};
use crate::schema::names::{between_commas, quoted_name, unquoted};
use crate::schema::policy::{OnConflict, Upsert};
use crate::schema::target::Target;
use densite_disk::sync::Mutex;
use densite_log::Table;
use densite_sqlite::Connection;
use std::sync::Arc;

/// What one statement sets.
#[derive(Debug, PartialEq, Eq)]
struct Parsed {
    /// Places of columns that get a value.
    values: Vec<usize>,
    /// Columns that get the value of an expression of the old row, and the condition.
    upsert: Upsert,
}

/// How a statement is logged.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    pub(crate) table: Arc<Table>,
    /// The target's place of each column of the log.
    pub(crate) order: Arc<[usize]>,
}

/// The statements of an ingest table that were read last.
#[derive(Default)]
pub(crate) struct Updates(Mutex<Vec<(String, Option<Update>)>>);

/// So many statements are known at once.
const KNOWN: usize = 32;

/// Longer statements are not read for each row.
const LONGEST: usize = 64 << 10;

impl Updates {
    /// How the statement that is running is logged; `None` if it sets whole rows. `visible` is the
    /// name of the ingest table.
    pub(crate) fn of(
        &self,
        connection: &Connection,
        target: &Target,
        visible: &str,
    ) -> Option<Update> {
        let mut running = connection.running().filter(|statement| {
            let text = statement.text();
            text.len() <= LONGEST && assignments(text, visible).is_some()
        });
        let statement = running.next()?;
        if running.next().is_some() {
            return None;
        }
        // Values of parameters matter only within expressions.
        let text = statement.text();
        let text = match text.contains(['?', ':', '@', '$']) && names_columns(text, visible, target)
        {
            true => statement.expanded().filter(|text| text.len() <= LONGEST)?,
            false => text.to_owned(),
        };
        let mut known = self.0.lock();
        if let Some((_, update)) = known.iter().find(|(known, _)| *known == text) {
            return update.clone();
        }
        let update = parse(&text, visible, target).and_then(|parsed| logged(&parsed, target));
        if known.len() >= KNOWN {
            known.remove(0);
        }
        known.push((text, update.clone()));
        update
    }
}

/// The table of the log, and its columns.
fn logged(parsed: &Parsed, target: &Target) -> Option<Update> {
    let key = &target.key.as_ref()?.columns;
    let places = key.iter().chain(&parsed.values).copied();
    let order: Vec<usize> = places.collect();
    let names = order.iter().filter_map(|c| target.columns.get(*c));
    let names: Vec<String> = names.map(|c| c.name.clone()).collect();
    let note = match parsed.upsert.set.is_empty() && parsed.upsert.only_if.is_none() {
        true => OnConflict::Abort.note(),
        false => OnConflict::Set(parsed.upsert.clone()).note(),
    };
    let table = Table::new(target.name.clone(), names, key.len(), note).ok()?;
    Some(Update {
        table,
        order: order.into(),
    })
}

fn is(token: Option<&(usize, Token<'_>)>, word: &str) -> bool {
    matches!(token, Some((_, Token::Word(w))) if w.eq_ignore_ascii_case(word))
}

/// The text behind SET, if this is an UPDATE of the table.
fn assignments<'a>(text: &'a str, visible: &str) -> Option<&'a str> {
    let begins = text.trim_start().get(..6)?;
    if !begins.eq_ignore_ascii_case("update") {
        return None;
    }
    let tokens = tokens(text).ok()?;
    let mut at = 1;
    if is(tokens.get(at), "or") {
        at += 2;
    }
    if let Some((_, Token::Sign('.'))) = tokens.get(at + 1) {
        at += 2;
    }
    let (_, name) = tokens.get(at)?;
    if !is_name(*name, visible) || !is(tokens.get(at + 1), "set") {
        return None;
    }
    let (from, _) = tokens.get(at + 1)?;
    let rest = text.get(from + "set".len()..)?.trim_end();
    Some(rest.strip_suffix(';').unwrap_or(rest))
}

/// Whether a token names this. Text in single quotes is no name here.
fn is_name(token: Token<'_>, name: &str) -> bool {
    match token {
        Token::Word(word) => word.eq_ignore_ascii_case(name),
        Token::Quoted(text) if text.starts_with('\'') => false,
        Token::Quoted(text) => {
            quoted_name(text).is_some_and(|text| text.eq_ignore_ascii_case(name))
        }
        Token::Sign(_) => false,
    }
}

/// Whether a text names one of these columns.
fn names_any(text: &str, target: &Target, columns: impl Fn(usize) -> bool) -> bool {
    let tokens = tokens(text).unwrap_or_default();
    tokens.iter().any(|(_, token)| {
        let mut named = target.columns.iter().enumerate();
        named.any(|(place, column)| columns(place) && is_name(*token, &column.name))
    })
}

/// Whether the statement has an expression of columns, or a condition on columns beside the key.
fn names_columns(text: &str, visible: &str, target: &Target) -> bool {
    let Some(rest) = assignments(text, visible) else {
        return false;
    };
    let (set, only_if) = condition(rest);
    let mut values = between_commas(set).into_iter().filter_map(assignment);
    values.any(|(_, value)| names_any(value, target, |_| true))
        || only_if.is_some_and(|text| names_any(text, target, |place| !is_key(target, place)))
}

fn is_key(target: &Target, place: usize) -> bool {
    let key = target.key.as_ref();
    key.is_some_and(|key| key.columns.contains(&place))
}

/// Reads a statement; `None` if it is something else, or has an expression of columns that cannot be
/// evaluated again.
fn parse(text: &str, visible: &str, target: &Target) -> Option<Parsed> {
    let rest = assignments(text, visible)?;
    let others = ["from", "order", "limit", "returning", "indexed"];
    let (mut depth, all) = (0_i64, tokens(rest).ok()?);
    for (_, token) in &all {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth -= 1,
            Token::Word(word)
                if depth == 0 && others.iter().any(|other| other.eq_ignore_ascii_case(word)) =>
            {
                return None;
            }
            _ => {}
        }
    }
    let (set, only_if) = condition(rest);
    let mut parsed = Parsed {
        values: Vec::new(),
        upsert: Upsert {
            set: Vec::new(),
            only_if: match only_if {
                Some(text) => kept(text, visible, target)?,
                None => None,
            },
        },
    };
    for part in between_commas(set) {
        let (name, value) = assignment(part)?;
        let place = target.column(&unquoted(name))?;
        if is_key(target, place) {
            // It does not change; otherwise the UPDATE is refused.
            continue;
        }
        // Of two assignments to a column, SQLite takes the last one.
        parsed.values.retain(|known| *known != place);
        let column = target.columns.get(place)?.name.clone();
        parsed.upsert.set.retain(|(known, _)| *known != column);
        match names_any(value, target, |_| true) {
            false => parsed.values.push(place),
            true => {
                let value = unqualified(value, visible)?;
                if !has_only_columns(&value, target) {
                    return None;
                }
                check(&value).ok()?;
                parsed.upsert.set.push((column, value));
            }
        }
    }
    Some(parsed)
}

/// The parts of a condition that name columns beside the key; `None` if they cannot be evaluated
/// again.
fn kept(text: &str, visible: &str, target: &Target) -> Option<Option<String>> {
    let beside = |text: &str| names_any(text, target, |place| !is_key(target, place));
    if !beside(text) {
        return Some(None);
    }
    let mut parts = Vec::new();
    let (mut from, mut depth) = (0, 0_i64);
    let tokens = tokens(text).ok()?;
    // AND also belongs to BETWEEN, and can stand within CASE.
    let is_plain = !(tokens.iter()).any(|token| {
        is(Some(token), "between") || is(Some(token), "case") || is(Some(token), "or")
    });
    for (at, token) in &tokens {
        match token {
            Token::Sign('(') => depth += 1,
            Token::Sign(')') => depth -= 1,
            Token::Word(word) if depth == 0 && is_plain && word.eq_ignore_ascii_case("and") => {
                parts.push(text.get(from..*at)?);
                from = at + "and".len();
            }
            _ => {}
        }
    }
    parts.push(text.get(from..)?);
    let parts: Option<Vec<String>> = parts
        .into_iter()
        .filter(|part| beside(part))
        .map(|part| {
            let part = unqualified(part, visible)?;
            (check(&part).is_ok() && has_only_columns(&part, target)).then_some(part)
        })
        .collect();
    Some(Some(parts?.join(" AND ")))
}

/// Whether each quoted name is that of a column. SQLite takes others for text, until there is such a
/// column.
fn has_only_columns(text: &str, target: &Target) -> bool {
    let tokens = tokens(text).unwrap_or_default();
    tokens.iter().all(|(_, token)| match token {
        Token::Quoted(text) if !text.starts_with('\'') => {
            quoted_name(text).is_some_and(|name| target.column(&name).is_some())
        }
        _ => true,
    })
}

/// A text without the name of the ingest table before columns.
fn unqualified(text: &str, visible: &str) -> Option<String> {
    let tokens = tokens(text).ok()?;
    let (mut out, mut from) = (String::new(), 0);
    for (i, (at, token)) in tokens.iter().enumerate() {
        let dot = tokens
            .get(i + 1)
            .filter(|(_, next)| *next == Token::Sign('.'));
        if let Some((dot, _)) = dot
            && is_name(*token, visible)
        {
            out.push_str(text.get(from..*at)?);
            from = dot + 1;
        }
    }
    out.push_str(text.get(from..)?);
    Some(out.trim().to_owned())
}

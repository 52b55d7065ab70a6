//! Describes a template in words.

use super::{Fraction, Kind, Template};

/// A choice of at most this many bytes lists them.
const LISTED_MAX: usize = 8;

pub(super) fn describe(template: &Template) -> String {
    // Adjacent hexadecimal fields are one number to a reader.
    let mut parts: Vec<(Kind, usize, String)> = Vec::new();
    for piece in &template.pieces {
        let at = usize::from(piece.at);
        let len = usize::from(piece.len);
        let text = template.literals.get(at..at + len).unwrap_or_default();
        match parts.last_mut() {
            Some((kind, total, _)) if *kind == piece.kind && hex(piece.kind) => *total += len,
            _ => parts.push((piece.kind, len, text.escape_ascii().to_string())),
        }
    }
    if is_uuid(&parts) {
        return "uuid".into();
    }
    let alone = parts.len() == 1;
    parts
        .iter()
        .map(
            |(kind, len, text)| match (kind, words(template, *kind, *len)) {
                (Kind::Literal, _) => text.clone(),
                (Kind::Digits, words) if alone => format!("digits {words}"),
                (Kind::Choice(_), words) => words,
                (_, words) if alone => words,
                (_, words) => format!("{{{words}}}"),
            },
        )
        .collect()
}

fn hex(kind: Kind) -> bool {
    matches!(kind, Kind::Hex { .. })
}

fn is_uuid(parts: &[(Kind, usize, String)]) -> bool {
    let lens = parts.iter().map(|(_, len, _)| *len);
    lens.eq([8, 1, 4, 1, 4, 1, 4, 1, 12])
        && parts
            .iter()
            .enumerate()
            .all(|(i, (kind, _, text))| match i % 2 {
                0 => matches!(kind, Kind::Hex { .. } | Kind::Digits),
                _ => text == "-",
            })
}

fn words(template: &Template, kind: Kind, len: usize) -> String {
    match kind {
        Kind::Literal => String::new(),
        Kind::Digits => len.to_string(),
        Kind::Hex { upper: false } => format!("hex {len}"),
        Kind::Hex { upper: true } => format!("HEX {len}"),
        Kind::Date { separator: b'/' } => "date with /".into(),
        Kind::Date { .. } => "date".into(),
        Kind::CompactDate => "compact date".into(),
        Kind::DateTime { fraction, .. } => format!("date time{}", fraction_words(fraction)),
        Kind::Time { fraction } => format!("time{}", fraction_words(fraction)),
        Kind::Choice(list) => {
            let bytes = template.choices.get(usize::from(list));
            match bytes.map_or(&[][..], |choice| &choice.bytes) {
                bytes if bytes.len() <= LISTED_MAX => format!("[{}]", bytes.escape_ascii()),
                bytes => format!("[one of {}]", bytes.len()),
            }
        }
    }
}

fn fraction_words(fraction: Fraction) -> String {
    match fraction.digits {
        0 => String::new(),
        digits => format!(
            " {}{}",
            char::from(fraction.mark),
            "s".repeat(usize::from(digits))
        ),
    }
}

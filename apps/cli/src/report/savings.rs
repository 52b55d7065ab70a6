//! What compressing and vacuuming would bring, and what else to do: with the commands, and how each
//! figure was determined.

use super::Measured;
use super::html_text::{escaped, share, size};
use crate::advice::{Line, quoted};
use crate::gain::time;
use densite_tools::{Form, Gain, Info};
use std::fmt::Write as _;

/// A saving of less than one byte in this many is marked as hardly worth it.
const WORTH: u64 = 20;

/// A size that the file would have.
struct After {
    bytes: u64,
    command: String,
    /// What else there is to know, and where the figure comes from.
    how: String,
}

pub(super) fn section(info: &Info, measured: &Measured<'_>, page: &mut String) {
    let path = quoted(&info.path.to_string_lossy());
    let mut after = Vec::new();
    after.extend(compressing(info, measured, &path));
    if let Some(gain) = &info.gain {
        after.extend(maintaining(info, gain, &path));
        after.push(vacuuming(info, gain, &path));
    }
    after.sort_by_key(|a| a.bytes);
    let unknown = match measured.estimate {
        Some(Err(e)) => Some(format!("What compressing would bring is unknown: {e}")),
        None if info.form == Form::Plain => {
            Some("What compressing would bring was not measured: the file is not here.".into())
        }
        _ => None,
    };
    if after.is_empty() && unknown.is_none() {
        return;
    }
    page.push_str("<section>\n<h2>What would make it smaller</h2>\n<div class=\"savings\">\n");
    let largest = after.iter().map(|a| a.bytes).max().unwrap_or(0);
    let widest = largest.max(info.logical_bytes).max(info.stored_bytes);
    if info.form == Form::Compressed {
        bar("raw", info.logical_bytes, widest, "uncompressed", page);
        page.push_str("</div>\n");
    }
    bar("live", info.stored_bytes, widest, "now", page);
    page.push_str("</div>\n");
    for a in &after {
        bar("after", a.bytes, widest, "afterwards about", page);
        let saved = info.stored_bytes.saturating_sub(a.bytes);
        let frees = match saved {
            0 => "frees nothing.".to_owned(),
            _ => format!(
                "frees <b>about {}</b>, {} of the file.",
                size(saved),
                share(saved, info.stored_bytes)
            ),
        };
        let worth = match saved * WORTH < info.stored_bytes && saved > 0 {
            true => " This is hardly worth it.",
            false => "",
        };
        let _ = writeln!(
            page,
            "<p class=\"how\"><code>{}</code> {frees}{worth} {}</p></div>",
            escaped(&a.command),
            escaped(&a.how),
        );
    }
    page.push_str("</div>\n");
    if let Some(unknown) = unknown {
        let _ = writeln!(page, "<p class=\"warn\">{}</p>", escaped(&unknown));
    }
    page.push_str("</section>\n");
}

/// The begin of an item, with its bar.
fn bar(class: &str, bytes: u64, widest: u64, words: &str, page: &mut String) {
    let _ = writeln!(
        page,
        "<div class=\"saving\"><span class=\"track\"><span class=\"{class}\" style=\"width:{:.2}%\"></span></span><span class=\"n\">{words} <b>{}</b></span>",
        100.0 * bytes as f64 / widest.max(1) as f64,
        size(bytes)
    );
}

fn compressing(info: &Info, measured: &Measured<'_>, path: &str) -> Option<After> {
    let estimate = measured.estimate?.as_ref().ok()?;
    let how = match estimate.sampled_bytes < info.logical_bytes {
        false => "Measured: all of it was compressed for this figure.".to_owned(),
        true => format!(
            "Estimated: {} of it, in pieces from all of the file, were compressed for this figure.",
            size(estimate.sampled_bytes)
        ),
    };
    Some(After {
        bytes: estimate.compressed_bytes,
        command: format!("densite compress {path}"),
        how: format!("{how} Programs then open it through Densite."),
    })
}

fn maintaining(info: &Info, gain: &Gain, path: &str) -> Option<After> {
    (gain.maintained_bytes < info.stored_bytes).then(|| After {
        bytes: gain.maintained_bytes,
        command: format!("densite sql {path} 'PRAGMA densite_maintain'"),
        how: "It happens by itself when a program has the database open and is idle, or closes it last. Other programs can use it meanwhile.".into(),
    })
}

fn vacuuming(info: &Info, gain: &Gain, path: &str) -> After {
    let pages = match gain.estimated {
        true => "a sample of its pages",
        false => "all of its pages",
    };
    let not_known = match info.form {
        Form::Compressed => "; how well they compress together shows only then",
        _ => "",
    };
    After {
        bytes: gain.vacuumed_bytes,
        command: format!("densite vacuum {path}"),
        how: format!(
            "Estimated from how full {pages} are{not_known}. It takes about {} and needs up to {} beside the file; no other program can use the database meanwhile.",
            time(gain.seconds),
            size(gain.needed_bytes),
        ),
    }
}

/// What else to do: the lines of `advise` about other things than size, and files to remove.
pub(super) fn other_advice(info: &Info, advice: &[Line], page: &mut String) {
    let mut rows = String::new();
    let mut row = |text: &str, command: Option<&str>| {
        let command = command.map_or(String::new(), |c| format!(" <code>{}</code>", escaped(c)));
        let mut letters = text.chars();
        let first: String = letters
            .next()
            .into_iter()
            .flat_map(char::to_uppercase)
            .collect();
        let text = escaped(&format!("{first}{}", letters.as_str()));
        let _ = writeln!(rows, "<li>{text}{command}</li>");
    };
    for left in &info.leftovers {
        let bytes = std::fs::metadata(left).map_or(0, |m| m.len());
        let name = left.to_string_lossy();
        row(
            &format!(
                "a file of {} was left by an interrupted run, or belongs to one that is still running:",
                size(bytes)
            ),
            Some(&format!("rm {}", quoted(&name))),
        );
    }
    let others = advice
        .iter()
        .filter(|line| !matches!(line.about, "compress" | "vacuum"));
    for line in others {
        row(&line.text, line.command.as_deref());
    }
    if !rows.is_empty() {
        let _ = write!(
            page,
            "<section>\n<h2>Settings</h2>\n<ul class=\"advice\">\n{rows}</ul>\n</section>\n"
        );
    }
}

//! How the columns of tables and indexes are coded in a compressed file.

use super::html_text::escaped;
use crate::out;
use densite_tools::json::kind;
use densite_tools::{Form, Info, Object};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The largest number of objects, and of columns of one, that are shown.
const OBJECTS: usize = 40;
const COLUMNS: usize = 60;

pub(super) fn section(info: &Info, page: &mut String) {
    let heading = "<section>\n<h2>How columns are coded</h2>\n";
    match info.form {
        Form::Compressed => page.push_str(heading),
        _ => {
            let _ = write!(
                page,
                "{heading}<p>A plain file stores its pages as they are. Once it is compressed, this part shows how each column is coded.</p>\n</section>\n"
            );
            return;
        }
    }
    let objects = info.objects.all.iter().filter(|o| o.pages > 0);
    let mut codecs: BTreeMap<&str, u64> = BTreeMap::new();
    for object in objects.clone() {
        for (name, n) in &object.codecs {
            *codecs.entry(*name).or_default() += n;
        }
    }
    page.push_str("<dl class=\"codecs\">\n");
    for (name, n) in &codecs {
        let _ = writeln!(
            page,
            "<div><dt>{}</dt><dd>{} pages</dd><dd>{}</dd></div>",
            escaped(name),
            out::thousands(*n),
            meaning(name)
        );
    }
    page.push_str("</dl>\n<p>A typed page is stored as columns, by a model of its table. The model says for each column which form fits its values; a page whose values do not fit keeps them in another one. Numbers are stored as differences: from the smallest value of the page (frame of reference), from the value before (delta), as runs of equal values, or as ramps of values that do not fall. The bits are those of one value.</p>\n");
    let named: Vec<&Object> = objects.filter(|o| o.name.is_some()).collect();
    let open = named.iter().position(|o| o.model_pages > 0);
    for (object, i) in named.iter().take(OBJECTS).zip(0..) {
        one(object, Some(i) == open, page);
    }
    if named.len() > OBJECTS {
        let _ = writeln!(
            page,
            "<p>{} smaller ones are not shown: <code>densite info --columns</code> shows all.</p>",
            out::thousands((named.len() - OBJECTS) as u64)
        );
    }
    page.push_str("</section>\n");
}

/// What the name of a codec means.
fn meaning(codec: &str) -> &'static str {
    match codec {
        "raw" => "as they are, because they do not compress",
        "zero" | "none" => "only zeros, not stored",
        "zstd" => "compressed as bytes",
        "zstd+dict" => "compressed as bytes, with a dictionary learned from this file",
        "typed" => "as columns",
        "typed run" => "as columns, several pages together",
        "archive" => "as columns, many pages together, compressed once more",
        "joined" => "as columns, the rows of several emptied pages together",
        "linked" => "long values: chains of overflow pages, compressed as bytes",
        "postings" => "terms of a full-text index and the rows they are in",
        _ => "by a newer version of Densite",
    }
}

fn one(object: &Object, open: bool, page: &mut String) {
    let codecs: Vec<String> = object
        .codecs
        .iter()
        .map(|(name, n)| format!("{} {}", out::thousands(*n), escaped(name)))
        .collect();
    let sort = match &object.table {
        Some(table) => format!("index of {}", escaped(table)),
        None => kind(object.kind).to_string(),
    };
    let _ = writeln!(
        page,
        "<details{}><summary><b>{}</b> <span>{sort}; pages: {}</span></summary>",
        if open { " open" } else { "" },
        escaped(object.name.as_deref().unwrap_or_default()),
        codecs.join(", ")
    );
    if object.model_pages == 0 {
        page.push_str(
            "<p>No page is coded by a model: its columns are not coded one by one.</p></details>\n",
        );
        return;
    }
    let _ = write!(
        page,
        "<table class=\"columns\">\n<thead><tr><th>column</th><th>in {} of {} pages</th></tr></thead>\n<tbody>\n",
        out::thousands(object.model_pages),
        out::thousands(object.pages)
    );
    for column in object.columns.iter().take(COLUMNS) {
        let encodings: Vec<String> = column.encodings.iter().map(|e| escaped(e)).collect();
        let _ = writeln!(
            page,
            "<tr><th scope=\"row\">{}</th><td>{}</td></tr>",
            escaped(&column.name),
            match encodings.is_empty() {
                true => "not known: the model has seen no values".to_owned(),
                false => encodings.join("<br>"),
            }
        );
    }
    page.push_str("</tbody>\n</table>\n");
    if object.columns.len() > COLUMNS {
        let _ = writeln!(
            page,
            "<p>and {} more columns</p>",
            object.columns.len() - COLUMNS
        );
    }
    page.push_str("</details>\n");
}

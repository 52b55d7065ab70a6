//! Each relative link of a document leads to an existing file. If it names an anchor, that heading
//! exists too. Anchors are computed in the way of GitHub.

use crate::crates::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The Markdown files below a folder of the repository, without folders of installed, built or
/// measured files.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(root().join(folder));
    for entry in entries.unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = folder.join(&name);
        let is_other =
            name.starts_with('.') || ["target", "node_modules", "data"].contains(&&*name);
        if entry.file_type().expect("a type").is_dir() {
            if !is_other {
                documents(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
}

/// The text without code blocks, which are fenced, or indented after an empty line.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let (mut is_fenced, mut is_indented, mut was_empty) = (false, false, true);
    for line in text.lines() {
        let is_code = line.starts_with("    ") && (is_indented || was_empty);
        is_indented = is_code || is_indented && line.is_empty();
        was_empty = line.is_empty();
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced && !is_code {
            prose.push_str(line);
        }
        prose.push('\n');
    }
    prose
}

/// The text without code between backquotes.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// The targets of `[text](target)` and `![text](target)`.
fn links(text: &str) -> Vec<String> {
    let text = without_code(&prose(text));
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target.trim().to_owned())
        .collect()
}

/// The visible text of a heading: only the text of links, and no markup.
fn shown(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    shown.push_str(rest);
    shown.replace(['[', '`', '*'], "")
}

/// The anchors of a document, one for each heading. A repeated heading gets a number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for line in prose(text).lines() {
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if !(1..=6).contains(&level) || !heading.starts_with(' ') {
            continue;
        }
        let kept = |c: char| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c),
            _ => None,
        };
        let heading = shown(heading.trim()).to_lowercase();
        let anchor: String = heading.chars().filter_map(kept).collect();
        let before = times.entry(anchor.clone()).or_default();
        anchors.insert(match *before {
            0 => anchor,
            n => format!("{anchor}-{n}"),
        });
        *before += 1;
    }
    anchors
}

/// The problem of a link, if there is one.
fn wrong(document: &Path, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = match path {
        "" => document.to_path_buf(),
        path => document.with_file_name(path),
    };
    let file = root().join(file);
    if !file.exists() {
        return Some("no such file");
    }
    // Anchors in other files, such as lines of a source, depend on the site that shows them.
    if anchor.is_empty() || file.extension().is_none_or(|e| e != "md") {
        return None;
    }
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    (!anchors(&text).contains(anchor)).then_some("no such heading")
}

#[test]
fn every_link_and_anchor_exists() {
    let mut found = Vec::new();
    documents(Path::new(""), &mut found);
    let (mut dead, mut count) = (BTreeSet::new(), 0);
    for document in &found {
        let text = std::fs::read_to_string(root().join(document)).expect("a document");
        for target in links(&text) {
            count += 1;
            if let Some(why) = wrong(document, &target) {
                dead.insert(format!("{}: {target}: {why}", document.display()));
            }
        }
    }
    assert!(count > 200, "only {count} links were found");
    assert!(dead.is_empty(), "{dead:#?}");
}

/// The book of `make docs` has every page of docs, and every page that one of its pages links to.
#[test]
fn the_book_has_every_page() {
    let summary = Path::new("docs/SUMMARY.md");
    let text = std::fs::read_to_string(root().join(summary)).expect("the summary");
    let listed = links(&text);
    let mut found = Vec::new();
    documents(Path::new("docs"), &mut found);
    found.retain(|page| page != summary);
    for page in found {
        let page = page.strip_prefix("docs").expect("below docs");
        let is_listed = listed.iter().any(|link| Path::new(link) == page);
        assert!(is_listed, "{} is not in docs/SUMMARY.md", page.display());
    }
    let whole = |folder: &Path, link: &str| {
        let path = link.split('#').next().unwrap_or_default();
        let path = root().join(folder).join(path);
        path.canonicalize()
            .unwrap_or_else(|e| panic!("{link}: {e}"))
    };
    let pages: BTreeSet<PathBuf> = listed
        .iter()
        .map(|link| whole(Path::new("docs"), link))
        .collect();
    for page in &pages {
        let text = std::fs::read_to_string(page).expect("a page");
        let folder = page.parent().expect("a folder");
        for link in links(&text).iter().filter(|link| !link.contains("://")) {
            if !link
                .split('#')
                .next()
                .is_some_and(|path| path.ends_with(".md"))
            {
                continue;
            }
            let (linked, page) = (whole(folder, link), page.display());
            assert!(
                pages.contains(&linked),
                "{page}: {link} is not in docs/SUMMARY.md"
            );
        }
    }
}

#[test]
fn links_are_found_outside_of_code() {
    let text = "[a](b.md) `[c](d.md)` ![e](f.png)\n\n    [g](h.md)\n\n[two\nlines](i.md#j)\n";
    assert_eq!(links(text), ["b.md", "f.png", "i.md#j"]);
    assert_eq!(links("```\n[a](b.md)\n```\n[c](d.md)"), ["d.md"]);
    // An indented continuation line is not code.
    assert_eq!(links("- one\n    [a](b.md)"), ["b.md"]);
}

#[test]
fn anchors_are_those_of_github() {
    let text = "# A `b_c`, and [d](e.md)!\n## What is *not* promised\n### TPC-H, SF 1\n## What is not promised\n```\n# no\n```\n#tag";
    let found: Vec<String> = anchors(text).into_iter().collect();
    assert_eq!(
        found,
        [
            "a-b_c-and-d",
            "tpc-h-sf-1",
            "what-is-not-promised",
            "what-is-not-promised-1"
        ]
    );
}

#[test]
fn dead_links_are_reported() {
    let document = Path::new("docs/README.md");
    assert_eq!(wrong(document, "nowhere.md"), Some("no such file"));
    assert_eq!(wrong(document, "CLI.md#nowhere"), Some("no such heading"));
    assert_eq!(wrong(document, "#nowhere"), Some("no such heading"));
    assert_eq!(wrong(document, "CLI.md#vacuum"), None);
    assert_eq!(wrong(document, "../include/densite.h"), None);
}

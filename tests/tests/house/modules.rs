//! Modules of a crate have no dependency cycles, so each module can be read after the ones it uses.
//!
//! A module that uses its parent or its own children does not count as a cycle. Only `use` lines
//! and paths that begin with `crate` or `super` count, and tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Module = Vec<String>;
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The source folders of the crates.
fn crates() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found: Vec<_> = std::fs::read_dir(root)
        .expect("the crates")
        .map(|entry| entry.expect("a crate"))
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, entry.path().join("src"))
        })
        .filter(|(_, source)| source.is_dir())
        .collect();
    found.sort();
    found
}

/// The files below a folder, by module.
fn modules(source: &Path, at: &[String], found: &mut BTreeMap<Module, PathBuf>) {
    for entry in std::fs::read_dir(source).expect("sources") {
        let path = entry.expect("a file").path();
        let stem = path.file_stem().expect("a name").to_string_lossy();
        let inner = [at, &[stem.to_string()]].concat();
        if path.is_dir() {
            modules(&path, &inner, found);
        } else if path.extension().is_some_and(|e| e == "rs") && stem != "tests" {
            let is_folders = ["mod", "lib", "main"].contains(&&*stem);
            let module = if is_folders { at.to_vec() } else { inner };
            found.insert(module, path);
        }
    }
}

/// The source without comments and tests. A `mod tests;` in another file does not end the source.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths of a tree such as `crate::a::{b, c::{self, D}}`.
fn leaves(tree: &str, before: &[String], found: &mut Vec<Module>) {
    let (prefix, group) = match tree.split_once('{') {
        Some((prefix, rest)) => (prefix, rest.rsplit_once('}').map(|(group, _)| group)),
        None => (tree, None),
    };
    let prefix = prefix.split(" as ").next().unwrap_or("");
    let own = prefix.split("::").map(str::trim).filter(|s| !s.is_empty());
    let path: Module = before
        .iter()
        .cloned()
        .chain(own.map(str::to_owned))
        .collect();
    let Some(group) = group else {
        found.push(path);
        return;
    };
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !group[begin..at].trim().is_empty() {
                    leaves(&group[begin..at], &path, found);
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
}

/// All paths that begin with `crate` or `super`.
fn paths(code: &str) -> Vec<Module> {
    let mut found = Vec::new();
    let mut rest = String::new();
    let mut pieces = code.split("use ");
    rest.push_str(pieces.next().unwrap_or(""));
    for piece in pieces {
        let (tree, after) = piece.split_once(';').unwrap_or((piece, ""));
        leaves(&tree.replace('\n', " "), &[], &mut found);
        rest.push_str(after);
    }
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let inline = rest.split(|c| !is_path(c)).filter(|p| p.contains("::"));
    found.extend(inline.map(|p| p.split("::").map(str::to_owned).collect()));
    let is_inner = |path: &Module| path.first().is_some_and(|s| s == "crate" || s == "super");
    found.retain(is_inner);
    found
}

/// The dependencies between modules.
fn graph(source: &Path) -> Graph {
    let mut known = BTreeMap::new();
    modules(source, &[], &mut known);
    let mut graph = Graph::new();
    for (module, file) in &known {
        let uses = graph.entry(module.clone()).or_default();
        let text = std::fs::read_to_string(file).expect("a source");
        for path in paths(&code(&text)) {
            let ups = path.iter().take_while(|s| *s == "super").count();
            let (base, own) = match ups {
                0 => (&[][..], &path[1..]),
                ups => (&module[..module.len().saturating_sub(ups)], &path[ups..]),
            };
            let mut target = [base, own].concat();
            while !target.is_empty() && !known.contains_key(&target) {
                target.pop();
            }
            let is_one_room = target.starts_with(module) || module.starts_with(&target);
            if !is_one_room {
                uses.insert(target);
            }
        }
    }
    graph
}

/// All modules that can be reached from a module.
fn reached<'a>(graph: &'a Graph, from: &'a Module) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&Module> = graph[from].iter().collect();
    while let Some(module) = next.pop() {
        if found.insert(module) {
            next.extend(&graph[module]);
        }
    }
    found
}

/// Modules that can reach themselves.
fn in_circles(graph: &Graph) -> BTreeSet<String> {
    let reaches_itself = |module: &&Module| reached(graph, module).contains(module);
    graph
        .keys()
        .filter(reaches_itself)
        .map(|m| m.join("::"))
        .collect()
}

#[test]
fn modules_have_no_dependency_cycles() {
    let mut wrong = Vec::new();
    for (name, source) in crates() {
        for module in in_circles(&graph(&source)) {
            wrong.push(format!("{name}: {module} is in a dependency cycle"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cycles_are_found() {
    let paths = |code: &str| -> Vec<String> {
        let found = paths(code).into_iter();
        found.map(|p| p.join("::")).collect()
    };
    assert_eq!(
        paths("use crate::a::{self, b::{C, D as E}, f};\nuse std::x;\nfn g() { super::h::i(); }"),
        [
            "crate::a::self",
            "crate::a::b::C",
            "crate::a::b::D",
            "crate::a::f",
            "super::h::i"
        ]
    );
    let source = "#[cfg(test)]\nmod tests;\nuse a; // b\n#[cfg(test)]\nmod tests {\nuse c;";
    assert!(code(source).contains("use a;"));
    assert!(!code(source).contains('b') && !code(source).contains("use c;"));
    let module = |name: &str| vec![name.to_owned()];
    let uses = |names: &[&str]| names.iter().map(|n| module(n)).collect();
    let graph = Graph::from([
        (module("a"), uses(&["b"])),
        (module("b"), uses(&["c"])),
        (module("c"), uses(&["b"])),
    ]);
    let found: Vec<String> = in_circles(&graph).into_iter().collect();
    assert_eq!(found, ["b", "c"]);
}

/// Where a `main.rs` lists the tests, a file that is not listed would never run.
#[test]
fn every_file_of_tests_is_run() {
    for (name, source) in crates() {
        let folder = source.with_file_name("tests");
        let manifest = source.with_file_name("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).expect("a manifest");
        if !manifest.contains("autotests = false") {
            continue;
        }
        let main = std::fs::read_to_string(folder.join("main.rs")).expect("a main.rs");
        for entry in std::fs::read_dir(&folder).expect("tests") {
            let path = entry.expect("a file").path();
            let stem = path.file_stem().expect("a name").to_string_lossy();
            if path.extension().is_some_and(|e| e == "rs") {
                let is_listed = main.contains(&format!("\nmod {stem};"));
                let is_target = manifest.contains(&format!("name = \"{stem}\""));
                assert!(is_listed || is_target, "{name}: {}", path.display());
            }
        }
    }
}

//! Modules have no dependency cycles, so each can be read after the ones it uses.
//!
//! Each folder is one node for the modules beside it, with all files below it. Names that a module
//! re-exports count for where they come from. A folder's own file (`mod.rs`, `lib.rs`, `main.rs`)
//! stands above what is in the folder: what these files use of each other does not count there.
//! Tests do not count.

use crate::crates::{all_crates, root};
use crate::source::{Path, Source};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path as FilePath, PathBuf};

type Module = Vec<String>;

/// The folders of sources, by their names from the root: those of crates, benchmarks, tests.
fn folders() -> Vec<(String, PathBuf)> {
    let others = ["bench", "fuzz", "tests"].map(str::to_owned);
    let mut found = Vec::new();
    for package in all_crates().chain(others) {
        for part in ["src", "tests"] {
            let folder = root().join(&package).join(part);
            if folder.is_dir() {
                programs(&format!("{package}/{part}"), &folder, &mut found);
            }
        }
    }
    found
}

/// A folder, and those below it that hold a program of their own.
fn programs(name: &str, folder: &FilePath, found: &mut Vec<(String, PathBuf)>) {
    found.push((name.to_owned(), folder.to_path_buf()));
    for inner in inner_folders(folder).filter(|inner| inner.join("main.rs").is_file()) {
        let stem = inner.file_name().expect("a name").to_string_lossy();
        programs(&format!("{name}/{stem}"), &inner, found);
    }
}

fn inner_folders(folder: &FilePath) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).expect("sources");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.is_dir())
}

/// The files below a folder, by module.
fn files(folder: &FilePath, at: &[String], found: &mut BTreeMap<Module, PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("sources") {
        let path = entry.expect("a file").path();
        let stem = path.file_stem().expect("a name").to_string_lossy();
        let inner = [at, &[stem.to_string()]].concat();
        if path.is_dir() {
            // That of another program is read by itself.
            if !path.join("main.rs").is_file() {
                files(&path, &inner, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            let is_folders = ["mod", "lib", "main"].contains(&&*stem);
            let module = if is_folders { at.to_vec() } else { inner };
            found.insert(module, path);
        }
    }
}

/// The modules of one crate, and what they use.
struct Crate {
    modules: BTreeMap<Module, Source>,
}

impl Crate {
    fn read(folder: &FilePath) -> Crate {
        let mut found = BTreeMap::new();
        files(folder, &[], &mut found);
        let mut modules: BTreeMap<Module, Source> = found
            .iter()
            .map(|(module, file)| (module.clone(), Source::read(file)))
            .collect();
        let for_tests: Vec<Module> = modules
            .iter()
            .flat_map(|(module, source)| {
                let name = |name: &String| [&module[..], std::slice::from_ref(name)].concat();
                source.test_modules.iter().map(name)
            })
            .collect();
        modules.retain(|module, _| !for_tests.iter().any(|test| module.starts_with(test)));
        Crate { modules }
    }

    /// The module that a path in `module` leads to; `None` if it is of another crate.
    fn resolve(&self, module: &Module, path: &[String]) -> Option<Module> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let (mut at, mut rest) = match path.first()?.as_str() {
            "crate" => (Module::new(), &path[1..]),
            "self" => (module.clone(), &path[1..]),
            "super" => {
                let kept = module.len().saturating_sub(ups);
                (module[..kept].to_vec(), &path[ups..])
            }
            first => {
                let child = [&module[..], &[first.to_owned()]].concat();
                self.modules.contains_key(&child).then_some(())?;
                (child, &path[1..])
            }
        };
        // A re-export leads on; the number of steps is limited in case two lead to each other.
        for _ in 0..32 {
            let Some((name, after)) = rest.split_first() else {
                break;
            };
            let child = [&at[..], std::slice::from_ref(name)].concat();
            if self.modules.contains_key(&child) {
                (at, rest) = (child, after);
                continue;
            }
            let Some((of, _)) = self
                .modules
                .get(&at)
                .and_then(|source| source.uses.iter().find(|(_, known)| known == name))
            else {
                break;
            };
            return self.resolve_from(&at, of);
        }
        Some(at)
    }

    /// As [`Crate::resolve`], for a name that `module` has from elsewhere.
    fn resolve_from(&self, module: &Module, path: &Path) -> Option<Module> {
        let leads_back = path.len() < 2 || path[0] == "self";
        match leads_back {
            true => Some(module.clone()),
            false => self.resolve(module, path).or_else(|| Some(module.clone())),
        }
    }

    /// For each folder: what the modules in it use of each other, each with an example.
    fn graphs(&self) -> BTreeMap<Module, Graph> {
        let mut graphs: BTreeMap<Module, Graph> = BTreeMap::new();
        for (module, source) in &self.modules {
            let used = source.uses.iter().map(|(path, _)| path);
            for path in used.chain(&source.paths) {
                let Some(target) = self.resolve(module, path) else {
                    continue;
                };
                let same = module.iter().zip(&target).take_while(|(a, b)| a == b);
                let folder = module[..same.count()].to_vec();
                let (Some(from), Some(to)) = (module.get(folder.len()), target.get(folder.len()))
                else {
                    continue;
                };
                let example = format!("{} uses {}", module.join("::"), path.join("::"));
                let uses = graphs.entry(folder).or_default();
                let uses = uses.entry(from.clone()).or_default();
                uses.entry(to.clone()).or_insert(example);
            }
        }
        graphs
    }
}

/// What each node uses, with an example.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

/// All nodes that can be reached from a node.
fn reached<'a>(graph: &'a Graph, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let uses = |node: &str| graph.get(node).into_iter().flat_map(BTreeMap::keys);
    let mut next: Vec<&str> = uses(from).map(String::as_str).collect();
    while let Some(node) = next.pop() {
        if found.insert(node) {
            next.extend(uses(node).map(String::as_str));
        }
    }
    found
}

/// What nodes in cycles use of each other.
fn in_cycles(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for (from, uses) in graph {
        for (to, example) in uses {
            if reached(graph, to).contains(from.as_str()) {
                found.push(format!("{from} → {to}: {example}"));
            }
        }
    }
    found
}

#[test]
fn modules_have_no_dependency_cycles() {
    let mut wrong = Vec::new();
    for (name, folder) in folders() {
        for (inner, graph) in Crate::read(&folder).graphs() {
            let place = [std::slice::from_ref(&name), &inner[..]].concat().join("/");
            let cycles = in_cycles(&graph).into_iter();
            wrong.extend(cycles.map(|cycle| format!("{place}: {cycle}")));
        }
    }
    assert!(wrong.is_empty(), "in cycles:\n{}", wrong.join("\n"));
}

#[test]
fn cycles_are_found() {
    let node = |uses: &[&str]| {
        uses.iter()
            .map(|to| ((*to).to_owned(), String::new()))
            .collect()
    };
    let graph = Graph::from([
        ("a".to_owned(), node(&["b"])),
        ("b".to_owned(), node(&["c"])),
        ("c".to_owned(), node(&["b", "d"])),
    ]);
    assert_eq!(in_cycles(&graph), ["b → c: ", "c → b: "]);
}

/// A cycle counts if it goes through a folder, a re-export, or a name that another module has.
#[test]
fn names_lead_to_where_they_come_from() {
    let module = |name: &str, text: &str| {
        let path: Module = name
            .split("::")
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect();
        (path, Source::of(text).expect("tokens"))
    };
    let of = Crate {
        modules: BTreeMap::from([
            module("", "mod a; mod b; pub use b::deep::Thing; use std::fmt;"),
            module("a", "use crate::Thing; use crate::fmt; use self::inner::X;"),
            module("a::inner", "use super::super::b::f;"),
            module("b", "mod deep; pub use deep::Thing as Other;"),
            module("b::deep", "use crate::a; use super::Other;"),
        ]),
    };
    let graphs = of.graphs();
    assert_eq!(
        in_cycles(&graphs[&Module::new()]),
        ["a → b: a uses crate::Thing", "b → a: b::deep uses crate::a"]
    );
    assert_eq!(graphs.len(), 1, "{graphs:?}");
}

/// Where a `main.rs` lists the tests, a file that is not listed would never run.
#[test]
fn every_file_of_tests_is_run() {
    for (name, folder) in folders()
        .into_iter()
        .filter(|(name, _)| name.ends_with("/tests"))
    {
        let manifest = folder.with_file_name("Cargo.toml");
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

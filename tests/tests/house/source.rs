//! What a source file names of its own crate, read from its tokens.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::path::Path as FilePath;

/// A path: `crate::a::b` is `["crate", "a", "b"]`.
pub(super) type Path = Vec<String>;

/// What a file names, without what is there only for tests.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The paths of `use` declarations, each with the name that it has here; `*` is a path's last
    /// part.
    pub(super) uses: Vec<(Path, String)>,
    /// All other paths.
    pub(super) paths: Vec<Path>,
    /// Modules in other files that are there only for tests.
    pub(super) test_modules: Vec<String>,
}

impl Source {
    pub(super) fn read(file: &FilePath) -> Source {
        let text = std::fs::read_to_string(file).expect("a source");
        Source::of(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
    }

    pub(super) fn of(text: &str) -> Result<Source, proc_macro2::LexError> {
        let mut source = Source::default();
        source.add(text.parse::<TokenStream>()?);
        Ok(source)
    }

    fn add(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = &tokens[..];
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match first {
                TokenTree::Punct(mark) if mark.as_char() == '#' => {
                    if let Some((TokenTree::Group(attribute), after)) = rest.split_first()
                        && is_for_tests(attribute.stream())
                    {
                        let (item, after) = item(after);
                        if let Some(module) = module_elsewhere(item) {
                            self.test_modules.push(module);
                        }
                        rest = after;
                    }
                }
                TokenTree::Ident(word) if word == "use" => {
                    let end = rest.iter().position(is_semicolon).unwrap_or(rest.len());
                    self.tree(&rest[..end], &[]);
                    rest = &rest[end..];
                }
                TokenTree::Ident(word) if word == "mod" => {
                    if let [TokenTree::Ident(_), TokenTree::Group(body), after @ ..] = rest {
                        self.inline(body.stream());
                        rest = after;
                    }
                }
                TokenTree::Ident(word) => {
                    let mut path = vec![word.to_string()];
                    rest = further(rest, &mut path);
                    if path.len() > 1 {
                        self.paths.push(path);
                    }
                }
                TokenTree::Group(group) => self.add(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Adds what a module within the file names: its `super` is the file.
    fn inline(&mut self, tokens: TokenStream) {
        let mut inner = Source::default();
        inner.add(tokens);
        let as_in_file = |mut path: Path| match path.first().map(String::as_str) {
            Some("super") if path.get(1).is_some_and(|part| part == "super") => {
                path.remove(0);
                Some(path)
            }
            Some("crate") => Some(path),
            _ => None,
        };
        let paths = inner.uses.into_iter().map(|(path, _)| path);
        let paths = paths.chain(inner.paths).filter_map(as_in_file);
        self.paths.extend(paths);
    }

    /// Adds the paths of the tree behind a `use`.
    fn tree(&mut self, tokens: &[TokenTree], before: &[String]) {
        let mut path = before.to_vec();
        let rest = match tokens {
            [TokenTree::Ident(word), rest @ ..] => {
                path.push(word.to_string());
                further(rest, &mut path)
            }
            rest => rest,
        };
        let alias = |rest: &[TokenTree]| match rest {
            [TokenTree::Ident(word), TokenTree::Ident(name), ..] if word == "as" => {
                Some(name.to_string())
            }
            _ => None,
        };
        let group = rest.iter().find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
            _ => None,
        });
        if let Some(group) = group {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            for one in inner.split(is_comma).filter(|one| !one.is_empty()) {
                self.tree(one, &path);
            }
            return;
        }
        if rest.iter().any(|token| is_mark(token, '*')) {
            path.push("*".to_owned());
        }
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        if let Some(last) = path.last().cloned() {
            self.uses.push((path, alias(rest).unwrap_or(last)));
        }
    }
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(of) if of.as_char() == mark)
}

fn is_semicolon(token: &TokenTree) -> bool {
    is_mark(token, ';')
}

fn is_comma(token: &TokenTree) -> bool {
    is_mark(token, ',')
}

/// Takes `::word` from the front of `tokens` as often as it stands there.
fn further<'a>(mut tokens: &'a [TokenTree], path: &mut Path) -> &'a [TokenTree] {
    while let [a, b, TokenTree::Ident(word), rest @ ..] = tokens
        && is_mark(a, ':')
        && is_mark(b, ':')
    {
        path.push(word.to_string());
        tokens = rest;
    }
    tokens
}

/// Whether an attribute is `cfg(test)`, or `cfg(all(test, …))`.
fn is_for_tests(attribute: TokenStream) -> bool {
    let text: String = attribute.to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The item at the front of `tokens`, with further attributes, and what follows it.
fn item(tokens: &[TokenTree]) -> (&[TokenTree], &[TokenTree]) {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => is_semicolon(token) || is_comma(token),
    };
    let is_use = tokens
        .iter()
        .take(6)
        .any(|token| matches!(token, TokenTree::Ident(word) if word == "use"));
    let end = match is_use {
        true => tokens.iter().position(is_semicolon),
        false => tokens.iter().position(ends),
    };
    tokens.split_at(end.map_or(tokens.len(), |end| end + 1))
}

/// The name of a module that an item declares, and that is in another file.
fn module_elsewhere(item: &[TokenTree]) -> Option<String> {
    match item {
        [.., TokenTree::Ident(word), TokenTree::Ident(name), end]
            if word == "mod" && is_semicolon(end) =>
        {
            Some(name.to_string())
        }
        _ => None,
    }
}

#[test]
fn paths_are_read_from_tokens() {
    let text = r#"
        use crate::a::{self, b::{C, D as E}, f as g};
        pub(crate) use worker::X; // because of use crate::comment::x
        use super::all::*;
        fn h() { super::h::i(); let s = "crate::text::x"; format!("{}", crate::m::n()) }
        #[cfg(test)] use crate::only_for_tests;
        #[cfg(test)] mod large;
        #[cfg(test)] mod tests { use crate::t::u; }
        #[cfg(all(test, unix))] fn v() { crate::w::x() }
        mod inner { use super::File; use super::super::p::q; use crate::n::o; }
        struct S { #[cfg(test)] y: crate::y::Y, z: crate::z::Z }
    "#;
    let source = Source::of(text).expect("tokens");
    let uses: Vec<String> = (source.uses.iter())
        .map(|(path, name)| format!("{} {name}", path.join("::")))
        .collect();
    let wanted = [
        "crate::a a",
        "crate::a::b::C C",
        "crate::a::b::D E",
        "crate::a::f g",
        "worker::X X",
        "super::all::* *",
    ];
    assert_eq!(uses, wanted);
    let mut paths: Vec<String> = source.paths.iter().map(|path| path.join("::")).collect();
    paths.sort();
    assert_eq!(
        paths,
        [
            "crate::m::n",
            "crate::n::o",
            "crate::z::Z",
            "super::h::i",
            "super::p::q"
        ]
    );
    assert_eq!(source.test_modules, ["large"]);
}

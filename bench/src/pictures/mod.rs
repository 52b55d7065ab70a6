//! Pictures of the figures, and the page that shows them, both from the outcomes on disk.
//!
//! `densite-bench report` writes `pictures/*.svg` and `PICTURES.md`. A test compares both with the
//! results, so no picture is older than its figures. A missed target is marked in the picture, and
//! named in its text.

mod draw;
mod list;

use std::fmt::Write as _;
use std::path::Path;

use crate::headlines::{find, ratio};
use crate::numbers::readable;
use crate::outcome::{Compare, Figure, Outcome, taken};
use crate::result::{About as _, Result};

/// A picture: its bars, and the commands that measure them.
struct Picture {
    /// Its name in `pictures`, without `.svg`.
    file: &'static str,
    title: &'static str,
    text: &'static str,
    commands: &'static [&'static str],
    bars: &'static [Bar],
}

/// One figure, found by its data, its measure, and the beginning of its name.
struct Bar {
    what: &'static str,
    /// The name of the base.
    base: &'static str,
    data: &'static str,
    measure: &'static str,
    figure: &'static str,
}

/// A figure as it is drawn.
struct Pair {
    what: String,
    base_name: &'static str,
    base: f64,
    base_text: String,
    ours: f64,
    ours_text: String,
    /// In the unit of the figure.
    target: Option<f64>,
    verdict: String,
    is_missed: bool,
}

impl Pair {
    fn new(bar: &Bar, figure: &Figure) -> Pair {
        let is_ratio = matches!(figure.compare, Compare::Ratio | Compare::RatioAtLeast);
        let sign = match figure.compare {
            Compare::RatioAtLeast | Compare::AtLeast => "≥ ",
            Compare::Difference => "≤ +",
            Compare::Ratio | Compare::Ours => "≤ ",
        };
        let unit = if is_ratio { " ×" } else { "" };
        let mut verdict = format!("{} ×", ratio(figure));
        if let (Some(target), Some(met)) = (figure.target, figure.met) {
            let word = if met { "met" } else { "missed" };
            let _ = write!(verdict, " (target {sign}{target}{unit}: {word})");
        }
        Pair {
            what: bar.what.to_owned(),
            base_name: bar.base,
            base: figure.base,
            base_text: format!("{} {}", readable(figure.base), bar.base),
            ours: figure.ours,
            ours_text: readable(figure.ours),
            target: figure.target.map(|target| match figure.compare {
                Compare::Ratio | Compare::RatioAtLeast => target * figure.base,
                Compare::Difference => target + figure.base,
                Compare::Ours | Compare::AtLeast => target,
            }),
            verdict,
            is_missed: figure.met == Some(false),
        }
    }

    /// For readers who do not see the picture.
    fn spoken(&self) -> String {
        format!(
            "{}: {}, Densite {}, {}",
            self.what, self.base_text, self.ours_text, self.verdict
        )
    }
}

/// A file below the folder of the results.
struct Written {
    name: String,
    text: String,
}

/// The page and its pictures. A figure without an outcome has no bar, and a picture without bars is
/// left out.
fn written(outcomes: &[Outcome]) -> Result<Vec<Written>> {
    let mut page = String::from(
        "# Benchmarks in pictures\n\n\
         Written by `densite-bench report`, as [RESULTS.md](RESULTS.md) is, which has every figure with its\n\
         target. Each picture compares Densite with plain SQLite, or with what is named beside the upper\n\
         bar. Each pair of bars has its own scale. The thin mark is the target. Missed targets are red, and\n\
         their causes are in [RESULTS.md](RESULTS.md). The command below a picture measures its figures\n\
         and draws it again.\n",
    );
    let mut files = Vec::new();
    for picture in &list::PICTURES {
        let found = |bar: &Bar| {
            Some(Pair::new(
                bar,
                find(outcomes, bar.data, bar.measure, bar.figure)?,
            ))
        };
        let pairs: Vec<Pair> = picture.bars.iter().filter_map(found).collect();
        if pairs.is_empty() {
            continue;
        }
        let is_used = |o: &&Outcome| {
            let uses = |bar: &Bar| bar.data == o.data && bar.measure == o.measure;
            picture.bars.iter().any(uses)
        };
        let used: Vec<Outcome> = outcomes.iter().filter(is_used).cloned().collect();
        let spoken: Vec<String> = pairs.iter().map(Pair::spoken).collect();
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\n![{}. {}](pictures/{}.svg)\n\n",
            picture.title,
            picture.text,
            picture.title,
            spoken.join("; "),
            picture.file
        );
        for command in picture.commands {
            let _ = writeln!(page, "    {command}");
        }
        let _ = write!(page, "\n{}\n", taken(&used));
        files.push(Written {
            name: format!("pictures/{}.svg", picture.file),
            text: draw::svg(picture.title, &pairs)?,
        });
    }
    files.push(Written {
        name: "PICTURES.md".to_owned(),
        text: page,
    });
    Ok(files)
}

/// Writes the page and its pictures below `dir`.
pub(crate) fn write(dir: &Path, outcomes: &[Outcome]) -> Result<()> {
    let pictures = dir.join("pictures");
    std::fs::create_dir_all(&pictures).about("create", &pictures)?;
    for Written { name, text } in written(outcomes)? {
        let path = dir.join(name);
        std::fs::write(&path, text).about("write", &path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measure;
    use clap::ValueEnum as _;

    fn outcomes() -> Vec<Outcome> {
        Outcome::load_all(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("results")
    }

    #[test]
    fn pictures_and_their_page_equal_the_results() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let written = written(&outcomes()).expect("pictures");
        for file in &written {
            let text = std::fs::read_to_string(dir.join(&file.name)).unwrap_or_default();
            assert!(text == file.text, "{}: run densite-bench report", file.name);
        }
        for entry in std::fs::read_dir(dir.join("pictures")).expect("a folder") {
            let name = entry.expect("a file").file_name();
            let name = format!("pictures/{}", name.to_string_lossy());
            let is_written = written.iter().any(|file| file.name == name);
            assert!(is_written, "{name} belongs to no picture: remove it");
        }
    }

    #[test]
    fn every_bar_has_a_figure_with_a_base() {
        let outcomes = outcomes();
        for bar in list::PICTURES.iter().flat_map(|picture| picture.bars) {
            let figure = find(&outcomes, bar.data, bar.measure, bar.figure);
            let figure = figure.unwrap_or_else(|| panic!("{}: {}", bar.what, bar.figure));
            assert!(figure.base > 0.0, "{}: {}", bar.what, figure.name);
        }
    }

    #[test]
    fn the_command_below_a_picture_takes_each_of_its_measures() {
        for picture in &list::PICTURES {
            let named: Vec<&str> = picture
                .commands
                .iter()
                .filter_map(|command| command.strip_prefix("make bench ONLY="))
                .flat_map(|only| only.split(','))
                .collect();
            for bar in picture.bars {
                // The Makefile knows the measures of Python programs by their first word.
                let first = bar.measure.split('-').next().unwrap_or_default();
                let is_named = named.contains(&bar.measure) || named == [first];
                assert!(is_named, "{}: {}", picture.file, bar.measure);
            }
            for name in named {
                let is_python = ["bulk", "applications", "replicate"].contains(&name);
                let is_known = is_python || Measure::from_str(name, false).is_ok();
                assert!(is_known, "{}: there is no measure {name}", picture.file);
            }
        }
    }

    #[test]
    fn missed_targets_are_marked_and_named() {
        let figure = |met| {
            let target = if met { 0.2 } else { 0.1 };
            Figure::new("disk", Compare::Ratio, 1000.0, 150.0, Some(target))
        };
        let bar = Bar {
            what: "data",
            base: "SQLite",
            data: "",
            measure: "",
            figure: "",
        };
        let missed = Pair::new(&bar, &figure(false));
        assert_eq!(missed.verdict, "0.15 × (target ≤ 0.1 ×: missed)");
        assert_eq!(
            missed.spoken(),
            "data: 1000 SQLite, Densite 150, 0.15 × (target ≤ 0.1 ×: missed)"
        );
        let svg = |pair| draw::svg("Size", &[pair]).expect("a picture");
        let svg_missed = svg(missed);
        assert!(svg_missed.contains("missed") && svg_missed.matches("#B3261E").count() > 2);
        // The style names each colour twice.
        let svg_met = svg(Pair::new(&bar, &figure(true)));
        assert!(svg_met.matches("#B3261E").count() == 2);
    }

    /// Label and verdict share a line.
    #[test]
    fn the_text_of_each_bar_fits() {
        let outcomes = outcomes();
        for bar in list::PICTURES.iter().flat_map(|picture| picture.bars) {
            let figure = find(&outcomes, bar.data, bar.measure, bar.figure).expect(bar.what);
            let pair = Pair::new(bar, figure);
            let long = pair.what.chars().count() + pair.verdict.chars().count();
            assert!(long <= 66, "{}: {}", pair.what, pair.verdict);
        }
    }
}

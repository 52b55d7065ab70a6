//! The outcome of a measure: figures with their targets, their samples, and the machine. Each
//! outcome is one JSON file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::Machine;
use crate::numbers::median;
use crate::result::{About as _, Failure, Result};
use crate::work::Sample;

/// How a figure compares its two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Compare {
    /// Ours divided by the base
    Ratio,
    /// Ours divided by the base; should be at least the target
    #[serde(rename = "ratio at least")]
    RatioAtLeast,
    /// Ours less the base
    Difference,
    /// Ours alone
    Ours,
    /// Ours alone; should be at least the target
    #[serde(rename = "ours at least")]
    AtLeast,
}

/// One number with its target.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// What is measured, with its unit
    pub(crate) name: String,
    pub(crate) base: f64,
    pub(crate) ours: f64,
    pub(crate) compare: Compare,
    pub(crate) value: f64,
    /// The largest value wanted (the smallest for [`Compare::AtLeast`] and
    /// [`Compare::RatioAtLeast`]); none if the figure has no target
    pub(crate) target: Option<f64>,
    pub(crate) met: Option<bool>,
}

impl Figure {
    /// Compares two numbers.
    pub(crate) fn new(
        name: &str,
        compare: Compare,
        base: f64,
        ours: f64,
        target: Option<f64>,
    ) -> Self {
        let value = match compare {
            Compare::Ratio | Compare::RatioAtLeast => ours / base,
            Compare::Difference => ours - base,
            Compare::Ours | Compare::AtLeast => ours,
        };
        Figure {
            name: name.to_owned(),
            base,
            ours,
            compare,
            value,
            target,
            met: target.map(|t| match compare {
                Compare::AtLeast | Compare::RatioAtLeast => value >= t,
                _ => value <= t,
            }),
        }
    }

    /// Compares the medians of a value of all samples.
    pub(crate) fn medians(
        name: &str,
        compare: Compare,
        base: &[Sample],
        ours: &[Sample],
        of: impl Fn(&Sample) -> f64,
        target: Option<f64>,
    ) -> Self {
        let median = |samples: &[Sample]| median(samples.iter().map(&of).collect());
        Figure::new(name, compare, median(base), median(ours), target)
    }
}

/// The outcome of one measure on one set of data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The measure's short name
    pub(crate) measure: String,
    /// What it measures
    pub(crate) title: String,
    /// The data
    pub(crate) data: String,
    pub(crate) base_label: String,
    pub(crate) ours_label: String,
    pub(crate) figures: Vec<Figure>,
    pub(crate) base: Vec<Sample>,
    pub(crate) ours: Vec<Sample>,
    /// What explains the figures: values of `densite_info`, counts, versions of servers
    #[serde(default)]
    pub(crate) info: BTreeMap<String, Value>,
    pub(crate) machine: Machine,
}

impl Outcome {
    fn path(&self, dir: &Path) -> PathBuf {
        let plain = |s: &str| {
            s.chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() || c == '.' {
                        c
                    } else {
                        '-'
                    }
                })
                .collect::<String>()
                .to_lowercase()
        };
        dir.join("results").join(format!(
            "{}-{}.json",
            plain(&self.data),
            plain(&self.measure)
        ))
    }

    /// Writes the outcome to `dir/results`, and replaces an earlier one of the same measure and
    /// data.
    pub(crate) fn save(&self, dir: &Path) -> Result<()> {
        let path = self.path(dir);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).about("create", parent)?;
        }
        std::fs::write(&path, serde_json::to_string_pretty(self)? + "\n").about("write", &path)
    }

    /// All outcomes in `dir/results`, by file name.
    pub(crate) fn load_all(dir: &Path) -> Result<Vec<Outcome>> {
        let results = dir.join("results");
        let mut paths = Vec::new();
        if results.is_dir() {
            for entry in std::fs::read_dir(&results).about("read", &results)? {
                paths.push(entry.about("read", &results)?.path());
            }
        }
        paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
        paths.sort();
        paths
            .iter()
            .map(|path| {
                let text = std::fs::read_to_string(path).about("read", path)?;
                serde_json::from_str(&text).map_err(|e| {
                    Failure(format!(
                        "{} is not a result of this program ({e}): remove it",
                        path.display()
                    ))
                })
            })
            .collect()
    }
}

/// The machines and days of these outcomes.
pub(crate) fn taken(group: &[Outcome]) -> String {
    let mut machines: Vec<String> = group.iter().map(|o| o.machine.line()).collect();
    machines.dedup();
    let mut dates: Vec<&str> = group.iter().map(|o| o.machine.date.as_str()).collect();
    dates.sort_unstable();
    dates.dedup();
    let sync = group.iter().map(|o| o.machine.sync_ms).fold(0.0, f64::max);
    format!(
        "Machine: {}; a sync takes up to {sync:.2} ms. Taken on {}.",
        machines.join("; and "),
        dates.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_judged_by_their_kind_of_comparison() {
        assert_eq!(
            Figure::new("x", Compare::Ratio, 2.0, 3.0, Some(1.5)).met,
            Some(true)
        );
        assert_eq!(
            Figure::new("x", Compare::Ratio, 2.0, 3.01, Some(1.5)).met,
            Some(false)
        );
        assert_eq!(
            Figure::new("x", Compare::Difference, 5.0, 6.0, Some(0.0)).met,
            Some(false)
        );
        assert_eq!(
            Figure::new("x", Compare::Difference, 5.0, 6.0, None).met,
            None
        );
        assert_eq!(
            Figure::new("x", Compare::Ours, 5.0, 6.0, Some(6.0)).met,
            Some(true)
        );
        assert_eq!(
            Figure::new("x", Compare::AtLeast, 5.0, 6.0, Some(7.0)).met,
            Some(false)
        );
        assert_eq!(
            Figure::new("x", Compare::RatioAtLeast, 2.0, 29.0, Some(15.0)).met,
            Some(false)
        );
        assert_eq!(
            Figure::new("x", Compare::Ours, 5.0, f64::NAN, Some(7.0)).met,
            Some(false)
        );
    }
}

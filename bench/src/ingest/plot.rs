//! Diagrams of figures over time, as SVG.

use std::path::Path;

use plotters::coord::ranged1d::{KeyPointHint, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::result::{Failure, Result};

/// One line.
pub(super) struct Series<'a> {
    pub(super) label: &'a str,
    /// Seconds and values
    pub(super) points: Vec<(f64, f64)>,
}

/// One diagram.
pub(super) struct Panel<'a> {
    title: String,
    unit: &'a str,
    pub(super) series: Vec<Series<'a>>,
}

impl<'a> Panel<'a> {
    pub(super) fn new(title: &str, unit: &'a str) -> Panel<'a> {
        Panel {
            title: title.to_owned(),
            unit,
            series: Vec::new(),
        }
    }
}

const SIZE: (u32, u32) = (1100, 800);
/// Height of the legend, which all panels share.
const LEGEND: i32 = 50;
/// These differ for readers with red-green blindness, and in print.
const COLOURS: [RGBColor; 3] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(120, 120, 120),
];
const TEXT: &str = "sans-serif";

/// Draws two panels in a row, with values on a logarithmic scale.
pub(super) fn draw(path: &Path, panels: &[Panel<'_>]) -> Result<()> {
    try_draw(path, panels).map_err(|e| Failure(format!("cannot draw {}: {e}", path.display())))
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn try_draw(path: &Path, panels: &[Panel<'_>]) -> Drawn {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (top, rest) = root.split_vertically(LEGEND);
    if let Some(panel) = panels.first() {
        legend(&top, panel)?;
    }
    for (area, panel) in rest
        .split_evenly((panels.len().div_ceil(2), 2))
        .iter()
        .zip(panels)
    {
        diagram(area, panel)?;
    }
    root.present()?;
    Ok(())
}

fn legend<D: DrawingBackend<ErrorType: 'static>>(
    area: &DrawingArea<D, plotters::coord::Shift>,
    panel: &Panel<'_>,
) -> Drawn {
    let style = (TEXT, 18)
        .into_text_style(area)
        .pos(Pos::new(HPos::Left, VPos::Center));
    for ((series, colour), n) in panel.series.iter().zip(COLOURS).zip(0i32..) {
        let x = 60 + n * 330;
        let y = LEGEND / 2;
        area.draw(&PathElement::new(
            vec![(x, y), (x + 36, y)],
            colour.stroke_width(3),
        ))?;
        area.draw(&Text::new(
            series.label.to_owned(),
            (x + 44, y),
            style.clone(),
        ))?;
    }
    Ok(())
}

fn diagram<D: DrawingBackend<ErrorType: 'static>>(
    area: &DrawingArea<D, plotters::coord::Shift>,
    panel: &Panel<'_>,
) -> Drawn {
    let points = || panel.series.iter().flat_map(|s| &s.points);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::MIN, f64::max);
    let least = points()
        .map(|p| p.1)
        .filter(|v| *v > 0.0)
        .fold(f64::MAX, f64::min);
    let decades = Decades::around(least, most(|p| p.1));
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (TEXT, 17))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(78)
        .build_cartesian_2d(0.0..most(|p| p.0).max(1.0), decades)?;
    chart
        .configure_mesh()
        .x_desc("time, s")
        .y_desc(panel.unit)
        .axis_desc_style((TEXT, 16))
        .label_style((TEXT, 15))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .bold_line_style(BLACK.mix(0.22))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (series, colour) in panel.series.iter().zip(COLOURS) {
        chart.draw_series(LineSeries::new(
            series.points.iter().copied(),
            colour.stroke_width(2),
        ))?;
    }
    Ok(())
}

/// A logarithmic axis of whole decades. Each is marked; if there are few, values between them, too.
#[derive(Clone, Debug)]
struct Decades {
    from: i32,
    to: i32,
}

impl Decades {
    fn around(least: f64, most: f64) -> Decades {
        let from = least.log10().floor();
        let to = most.log10().ceil().max(from + 1.0);
        // The bounds are wider than any measured value.
        Decades {
            from: from.clamp(-9.0, 12.0) as i32,
            to: to.clamp(-8.0, 13.0) as i32,
        }
    }
}

impl Ranged for Decades {
    type ValueType = f64;
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share =
            (value.max(1e-9).log10() - f64::from(self.from)) / f64::from(self.to - self.from);
        limit.0 + (f64::from(limit.1 - limit.0) * share).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        let within: &[f64] = if self.to - self.from <= 2 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let of_decade = |n: i32| within.iter().map(move |k| k * 10f64.powi(n));
        (self.from..self.to)
            .flat_map(of_decade)
            .chain([10f64.powi(self.to)])
            .collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        10f64.powi(self.from)..10f64.powi(self.to)
    }
}

impl ValueFormatter<f64> for Decades {
    fn format(value: &f64) -> String {
        match *value {
            v if v >= 1e6 => format!("{:.0} M", v / 1e6),
            v if v >= 1e3 => format!("{:.0},000", v / 1e3),
            v if v >= 1.0 => format!("{v:.0}"),
            v => {
                let digits = (-v.log10()).ceil().max(1.0) as usize;
                format!("{v:.digits$}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagrams_have_titles_units_and_lines() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("p.svg");
        let points = |k: f64| (1..=30).map(|n| (f64::from(n), k * f64::from(n))).collect();
        let panels: Vec<Panel<'_>> = ["one", "two"]
            .map(|title| Panel {
                title: title.to_owned(),
                unit: "ms",
                series: vec![
                    Series {
                        label: "first",
                        points: points(0.01),
                    },
                    Series {
                        label: "second",
                        points: points(30.0),
                    },
                ],
            })
            .into();
        draw(&path, &panels).expect("it is drawn");
        let svg = std::fs::read_to_string(&path).expect("a file");
        for word in [
            "one", "two", "first", "second", "ms", "time, s", "0.01", "1,000",
        ] {
            assert!(svg.contains(word), "{word}");
        }
        assert!(svg.matches("<polyline").count() >= 4);
    }
}

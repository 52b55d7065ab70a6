//! Draws bars as SVG, two for each figure: the base above, Densite below. A mark shows the target.
//!
//! Each pair of bars has a scale of its own, because the units of figures differ. Text beside the
//! bars has the numbers. The picture is as narrow as a phone. Its colours follow the reader's
//! choice of light or dark.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Pair;
use crate::result::{Failure, Result};

/// In pixels, as all sizes here.
const WIDTH: u32 = 480;
const EDGE: i32 = 10;
const HEAD: i32 = 62;
/// The height of a figure: a line of text and two bars.
const ROW: i32 = 62;
const BAR: i32 = 15;
/// The longest bar. Text stands at its right.
const LONGEST: f64 = 300.0;

const FONT: &str = "sans-serif";
/// A font's size for plotters, which divides it by this for SVG.
const LINE: f64 = 1.24;

/// A colour in the light, and its replacement in the dark.
struct Colour {
    light: RGBColor,
    dark: &'static str,
}

const GROUND: Colour = Colour {
    light: RGBColor(255, 255, 255),
    dark: "#161b22",
};
const TEXT: Colour = Colour {
    light: RGBColor(31, 35, 40),
    dark: "#e6edf3",
};
const FAINT: Colour = Colour {
    light: RGBColor(87, 96, 106),
    dark: "#9aa4af",
};
const BASE: Colour = Colour {
    light: RGBColor(158, 166, 175),
    dark: "#6b7480",
};
const OURS: Colour = Colour {
    light: RGBColor(0, 114, 178),
    dark: "#4aa8e0",
};
const MISSED: Colour = Colour {
    light: RGBColor(179, 38, 30),
    dark: "#ff8a7a",
};

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// The picture of these figures.
pub(super) fn svg(title: &str, pairs: &[Pair]) -> Result<String> {
    let mut text = String::new();
    draw(&mut text, title, pairs).map_err(|e| Failure(format!("cannot draw {title}: {e}")))?;
    // The first tag is that of the picture.
    let (tag, rest) = text.split_once(">\n").unwrap_or((&text, ""));
    Ok(format!("{tag}>\n{}\n{rest}", style()))
}

/// The rules for the dark. They find what to change by its colour.
fn style() -> String {
    let mut rules = String::new();
    for Colour { light, dark } in [GROUND, TEXT, FAINT, BASE, OURS, MISSED] {
        let light = format!("#{:02X}{:02X}{:02X}", light.0, light.1, light.2);
        rules += &format!("[fill=\"{light}\"]{{fill:{dark}}}");
        rules += &format!("[stroke=\"{light}\"]{{stroke:{dark}}}");
    }
    format!("<style>@media (prefers-color-scheme:dark){{{rules}}}</style>")
}

fn draw(svg: &mut String, title: &str, pairs: &[Pair]) -> Drawn {
    let rows = i32::try_from(pairs.len())?;
    let height = HEAD + rows * ROW;
    let area = SVGBackend::with_string(svg, (WIDTH, u32::try_from(height)?)).into_drawing_area();
    area.fill(&GROUND.light)?;
    head(&area, title, pairs)?;
    for (pair, n) in pairs.iter().zip(0..) {
        figure(&area, HEAD + n * ROW, pair)?;
    }
    area.present()?;
    Ok(())
}

/// Title and legend.
fn head(area: &Area<'_>, title: &str, pairs: &[Pair]) -> Drawn {
    write(area, (EDGE, 18), title, 17.0, &TEXT, HPos::Left)?;
    let base = pairs.first().map_or("", |pair| pair.base_name);
    let base = match pairs.iter().all(|pair| pair.base_name == base) {
        true => base,
        false => "the base, as named",
    };
    let mut x = EDGE;
    for (name, colour) in [(base, &BASE), ("Densite", &OURS)] {
        block(area, (x, 36), 12, colour)?;
        write(area, (x + 18, 43), name, 13.0, &FAINT, HPos::Left)?;
        x += 36 + 8 * i32::try_from(name.len())?;
    }
    if pairs.iter().any(|pair| pair.target.is_some()) {
        mark(area, x + 4, 36)?;
        write(area, (x + 14, 43), "target", 13.0, &FAINT, HPos::Left)?;
    }
    Ok(())
}

/// A line of text, and both bars below it.
fn figure(area: &Area<'_>, top: i32, pair: &Pair) -> Drawn {
    let right = i32::try_from(WIDTH)? - EDGE;
    write(area, (EDGE, top + 8), &pair.what, 14.0, &TEXT, HPos::Left)?;
    let colour = if pair.is_missed { &MISSED } else { &FAINT };
    write(
        area,
        (right, top + 8),
        &pair.verdict,
        13.0,
        colour,
        HPos::Right,
    )?;
    let most = pair.base.max(pair.ours).max(pair.target.unwrap_or(0.0));
    // A bar of zero still shows where it begins.
    let length = |value: f64| ((value / most * LONGEST).round() as i32).max(1);
    let bars = [
        (pair.base, &pair.base_text, &BASE),
        (pair.ours, &pair.ours_text, &OURS),
    ];
    for ((value, text, colour), y) in bars.into_iter().zip([top + 20, top + 21 + BAR]) {
        block(area, (EDGE, y), length(value), colour)?;
        let mut x = EDGE + length(value) + 6;
        if let Some(target) = pair.target.filter(|_| y > top + 20) {
            // Text stays clear of the mark.
            let at = EDGE + length(target);
            if at >= x - 8 {
                x = at + 8;
            }
            mark(area, at, y)?;
        }
        write(area, (x, y + BAR / 2), text, 13.0, &FAINT, HPos::Left)?;
    }
    Ok(())
}

fn block(area: &Area<'_>, (x, y): (i32, i32), length: i32, colour: &Colour) -> Drawn {
    let corners = [(x, y), (x + length, y + BAR)];
    area.draw(&Rectangle::new(corners, colour.light.filled()))?;
    Ok(())
}

/// The mark of a target.
fn mark(area: &Area<'_>, x: i32, y: i32) -> Drawn {
    let corners = [(x - 1, y - 1), (x + 2, y + BAR + 3)];
    area.draw(&Rectangle::new(corners, TEXT.light.filled()))?;
    Ok(())
}

/// Text whose middle is at this height.
fn write(
    area: &Area<'_>,
    at: (i32, i32),
    text: &str,
    size: f64,
    colour: &Colour,
    side: HPos,
) -> Drawn {
    let style = (FONT, size * LINE)
        .into_text_style(area)
        .color(&colour.light)
        .pos(Pos::new(side, VPos::Center));
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

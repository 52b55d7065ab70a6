//! The table of the demo, and whether all answers are the same.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::reader::{Cost, End};
use super::steps::Step;
use crate::numbers::grouped;

/// A program's name, and what each step has cost.
pub(super) type Row = (String, Vec<Cost>);

/// Step by step, the programs one below the other.
pub(super) fn table(title: &str, steps: &[&Step], rows: &[Row]) -> Table {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_header([title, "read by", "requests", "KiB", "seconds"]);
    for (i, step) in steps.iter().enumerate() {
        for (j, (name, costs)) in rows.iter().enumerate() {
            let Some(cost) = costs.get(i) else { continue };
            let [requests, kib, seconds] = cells(cost);
            let step = if j == 0 { step.title } else { "" };
            table.add_row([step, name, &requests, &kib, &seconds]);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn cells(cost: &Cost) -> [String; 3] {
    let requests = grouped(&cost.requests.to_string());
    let kib = grouped(&format!("{:.0}", cost.kib));
    match &cost.end {
        End::Answer { seconds, .. } => [requests, kib, format!("{seconds:.2}")],
        End::Limit => [requests, kib, "not done".into()],
        End::Failed(_) => [requests, kib, "failed".into()],
        End::NotBegun => ["–".into(), "–".into(), "–".into()],
    }
}

/// Sentences about steps without an answer.
pub(super) fn unfinished(steps: &[&Step], rows: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, costs) in rows {
        for (step, cost) in steps.iter().zip(costs) {
            match &cost.end {
                End::Failed(why) => found.push(format!("{name}, {}: {why}", step.title)),
                End::Limit => found.push(format!(
                    "{name}, {}: stopped after {} seconds",
                    step.title,
                    super::reader::LIMIT.as_secs()
                )),
                End::Answer { .. } | End::NotBegun => {}
            }
        }
    }
    found
}

/// Sentences about answers that are not the expected ones.
pub(super) fn wrong(steps: &[&Step], expected: &[i64], rows: &[Row]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, costs) in rows {
        for ((step, expected), cost) in steps.iter().zip(expected).zip(costs) {
            if let End::Answer { answer, .. } = cost.end
                && answer != *expected
            {
                found.push(format!(
                    "{name}, {}: {answer} instead of {expected}",
                    step.title
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::steps::steps;
    use super::*;

    fn cost(requests: u64, end: End) -> Cost {
        Cost {
            requests,
            kib: 1234.4,
            end,
        }
    }

    fn answer(answer: i64) -> End {
        let seconds = 0.126;
        End::Answer { answer, seconds }
    }

    #[test]
    fn a_wrong_answer_is_reported_and_a_missing_one_is_not_wrong() {
        let all = steps(10);
        let steps: Vec<_> = all[..2].iter().collect();
        let rows = [
            ("a".to_owned(), vec![cost(2, answer(7)), cost(3, answer(8))]),
            ("b".to_owned(), vec![cost(2, answer(7)), cost(3, answer(9))]),
            (
                "c".to_owned(),
                vec![cost(5, End::Failed("no".into())), cost(0, End::NotBegun)],
            ),
            (
                "d".to_owned(),
                vec![cost(2, End::Limit), cost(3, answer(8))],
            ),
        ];
        let found = wrong(&steps, &[7, 8], &rows);
        assert_eq!(found, ["b, open and one lookup: 9 instead of 8"]);
        assert_eq!(
            unfinished(&steps, &rows),
            [
                "c, open and schema: no",
                "d, open and schema: stopped after 30 seconds"
            ]
        );
    }

    #[test]
    fn the_table_has_a_line_for_each_step_and_program() {
        let all = steps(10);
        let steps: Vec<_> = all[..2].iter().collect();
        let rows = [
            (
                "a".to_owned(),
                vec![cost(2, answer(7)), cost(1_234_567, answer(8))],
            ),
            (
                "b".to_owned(),
                vec![cost(2, answer(7)), cost(3, End::Limit)],
            ),
        ];
        let text = table("data", &steps, &rows).to_string();
        let line = |words: &[&str]| {
            text.lines().any(|line| {
                line.split(['│', '┆'])
                    .map(str::trim)
                    .eq(words.iter().copied())
            })
        };
        assert!(
            line(&["", "open and schema", "a", "2", "1,234", "0.13", ""]),
            "{text}"
        );
        assert!(line(&["", "", "b", "2", "1,234", "0.13", ""]), "{text}");
        let step = "open and one lookup";
        assert!(
            line(&["", step, "a", "1,234,567", "1,234", "0.13", ""]),
            "{text}"
        );
        assert!(line(&["", "", "b", "3", "1,234", "not done", ""]), "{text}");
    }
}

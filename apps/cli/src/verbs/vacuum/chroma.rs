//! `densite vacuum DIR` for a directory of Chroma, whose log is pruned, too.

use super::{done, is_done, planned_json, planned_text};
use crate::args::{Common, VacuumArgs};
use crate::failure::Failure;
use crate::progress::Bar;
use crate::{ask, gain, out, shown, sqlite};
use densite_tools::VacuumOptions;
use densite_tools::chroma::{
    AutoPurge, ChromaVacuum, CollectionPlan, Hold, PrunePlan, PurgeChange, SegmentPlan,
};
use serde_json::{Value, json};

/// Prunes and vacuums a directory of Chroma; `None` if the path is no such directory.
pub(super) fn vacuum(
    common: Common,
    args: &VacuumArgs,
    options: &VacuumOptions,
) -> Result<Option<u8>, Failure> {
    let Some(directory) = ChromaVacuum::find(sqlite::api()?, &args.path, options)? else {
        return Ok(None);
    };
    let plan = directory.vacuum();
    let with_plan = |mut object: Value, plan: &PrunePlan| {
        if let Value::Object(object) = &mut object {
            object.insert("chroma".into(), to_json(plan));
        }
        object
    };
    if args.dry_run {
        let object = with_plan(planned_json(plan)?, directory.plan());
        let text = format!("{}{}", text(directory.plan()), planned_text(plan)?);
        out::result(common, &object, &text)?;
        return Ok(Some(0));
    }
    directory.check()?;
    if !common.yes {
        let given = args.path.display();
        for line in text(directory.plan()).trim_end().lines() {
            out::message(common, line);
        }
        let reclaims = gain::sentence(plan.gain());
        out::message(
            common,
            &format!(
                "{given}: a vacuum reclaims {reclaims}, plus the space of the deleted rows of the log"
            ),
        );
        ask::consent(common, &format!("Prune and vacuum {given} now?"))?;
    }
    let mut bar = Bar::interruptible(common)?;
    let report = directory.run(options, &mut bar);
    drop(bar);
    let (pruned, report) = report?;
    let (object, text) = done(common, &report);
    let text = if common.quiet {
        text
    } else {
        let folders = match pruned.leftovers.len() as u64 {
            0 => String::new(),
            n => format!(
                "; {} of deleted collections removed, {}",
                out::counted(n, "folder", "folders"),
                out::bytes(leftover_bytes(&pruned))
            ),
        };
        format!(
            "{}: {} of {} rows of the log pruned{folders}\n{text}",
            shown::path(&pruned.dir),
            out::thousands(pruned.rows),
            out::thousands(pruned.queue_rows),
        )
    };
    out::report(common, &with_plan(object, &pruned), &text, &is_done(args));
    Ok(Some(0))
}

/// The object `chroma` of the JSON output.
fn to_json(plan: &PrunePlan) -> Value {
    json!({
        "directory": plan.dir.to_string_lossy(),
        "schema": {
            "sysdb": plan.schema.sysdb,
            "metadb": plan.schema.metadb,
            "embeddings_queue": plan.schema.embeddings_queue,
            "releases": plan.schema.releases(),
        },
        "queue_rows": plan.queue_rows,
        "prune_rows": plan.rows,
        "prune_bytes": plan.bytes,
        "gone_collections": plan.gone.collections,
        "gone_rows": plan.gone.queue_rows,
        "gone_prune_rows": plan.gone.rows,
        "foreign_rows": plan.foreign_rows,
        "leftover_folders": plan.leftovers.len(),
        "leftover_bytes": leftover_bytes(plan),
        "automatically_purge": match plan.automatically_purge {
            AutoPurge::On => Some(true),
            AutoPurge::Off => Some(false),
            AutoPurge::Unset | AutoPurge::NoPlace => None,
        },
        "automatically_purge_change": match plan.change {
            PurgeChange::None => "none",
            PurgeChange::TurnOn => "turn_on",
            PurgeChange::LeftOff => "left_off",
        },
        "collections": plan.collections.iter().map(collection).collect::<Vec<_>>(),
    })
}

/// The space of the folders of deleted collections.
fn leftover_bytes(plan: &PrunePlan) -> u64 {
    plan.leftovers.iter().map(|folder| folder.bytes).sum()
}

fn collection(of: &CollectionPlan) -> Value {
    json!({
        "tenant": of.tenant,
        "database": of.database,
        "name": of.name,
        "id": of.id,
        "queue_rows": of.queue_rows,
        "first_row": of.first_row,
        "last_row": of.last_row,
        "position": of.position,
        "prune_rows": of.rows,
        "prune_bytes": of.bytes,
        "only_copies": of.only_copies,
        "hold": of.hold.as_ref().map(hold),
        "segments": of.segments.iter().map(segment).collect::<Vec<_>>(),
    })
}

fn segment(of: &SegmentPlan) -> Value {
    json!({
        "id": of.id,
        "scope": of.scope,
        "position": of.position,
        "hold": of.hold.as_ref().map(hold),
    })
}

fn hold(hold: &Hold) -> Value {
    json!({ "kind": hold.kind(), "why": hold.to_string() })
}

/// The same as text: a line for each collection that has rows in the queue, and a summary of the
/// others.
fn text(plan: &PrunePlan) -> String {
    use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(["collection", "log rows", "can go", "what stays, and why"]);
    let mut row = |name: String, rows: u64, go: u64, why: String| {
        let number = |n| Cell::new(out::thousands(n)).set_alignment(CellAlignment::Right);
        table.add_row(vec![
            Cell::new(name),
            number(rows),
            number(go),
            Cell::new(why),
        ]);
    };
    let mut idle = 0;
    for of in &plan.collections {
        if of.queue_rows == 0 {
            idle += 1;
            continue;
        }
        row(name(of), of.queue_rows, of.rows, why(of));
    }
    let gone = &plan.gone;
    if gone.collections > 0 {
        let name = format!("({} deleted)", gone.collections);
        let why = if gone.rows < gone.queue_rows {
            "the newest row of the log"
        } else {
            ""
        };
        row(name, gone.queue_rows, gone.rows, why.to_string());
    }
    if plan.foreign_rows > 0 {
        let why = "rows that cannot be assigned to a collection".to_string();
        row("(unknown)".to_string(), plan.foreign_rows, 0, why);
    }
    let mut text = format!(
        "Chroma directory {}, schema {}\n",
        shown::path(&plan.dir),
        plan.schema
    );
    if plan.queue_rows > 0 {
        text += &format!("{}\n", table.trim_fmt());
    }
    if idle > 0 {
        text += &format!("{idle} collections without rows in the log\n");
    }
    text += &format!(
        "log: {} of {} rows can go, about {}\n",
        out::thousands(plan.rows),
        out::thousands(plan.queue_rows),
        out::bytes(plan.bytes)
    );
    if !plan.leftovers.is_empty() {
        text += &format!(
            "indexes of deleted collections: {} can go, {}\n",
            out::counted(plan.leftovers.len() as u64, "folder", "folders"),
            out::bytes(leftover_bytes(plan))
        );
    }
    text += match (plan.change, plan.automatically_purge) {
        (PurgeChange::TurnOn, _) => "automatically_purge: becomes true\n",
        (PurgeChange::LeftOff, _) => {
            "automatically_purge: stays off, because Chroma's own purge would delete rows that must stay (see above)\n"
        }
        (PurgeChange::None, AutoPurge::NoPlace) => {
            "automatically_purge: this version of Chroma has no such setting\n"
        }
        (PurgeChange::None, _) => "automatically_purge: is true\n",
    };
    text
}

/// Tenant, database and name. Names come from the application, so control characters are escaped.
fn name(of: &CollectionPlan) -> String {
    let part = |s: &Option<String>| s.as_deref().unwrap_or("?").escape_debug().to_string();
    let name = of.name.escape_debug();
    format!("{}/{}/{name}", part(&of.tenant), part(&of.database))
}

fn why(of: &CollectionPlan) -> String {
    if let Some(hold) = &of.hold {
        return format!("all: {hold}");
    }
    let Some(slowest) = of.slowest() else {
        return String::new();
    };
    if let Some(hold) = &slowest.hold {
        return format!("all: of the {} segment, {hold}", slowest.scope);
    }
    let mut why = format!(
        "from row {} on, the position of the {} segment",
        slowest.position.unwrap_or(0),
        slowest.scope
    );
    if of.only_copies > 0 {
        why += &format!(
            ", and {} before it that are the only copy of a record",
            out::thousands(of.only_copies)
        );
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use densite_tools::chroma::{GonePlan, Leftover, Schema};

    fn of(name: &str, queue_rows: u64, segments: Vec<SegmentPlan>) -> CollectionPlan {
        CollectionPlan {
            tenant: Some("acme".into()),
            database: Some("shop".into()),
            name: name.into(),
            id: "93e4bf37-215d-4dd1-9fbf-bdf2f81d36ba".into(),
            queue_rows,
            first_row: (queue_rows > 0).then_some(1),
            last_row: (queue_rows > 0).then_some(2600),
            segments,
            position: None,
            hold: None,
            rows: 0,
            bytes: 0,
            only_copies: 0,
        }
    }

    fn at(scope: &str, position: Option<i64>, hold: Option<Hold>) -> SegmentPlan {
        SegmentPlan {
            id: "c4c10acd-5c63-4d84-a8f8-96c371e4268f".into(),
            scope: scope.into(),
            position,
            hold,
        }
    }

    fn plan() -> PrunePlan {
        let mut big = of(
            "big",
            2504,
            vec![
                at("METADATA", Some(2504), None),
                at("VECTOR", Some(2000), None),
            ],
        );
        (big.position, big.rows, big.bytes, big.only_copies) = (Some(2000), 1998, 450_000, 1);
        let mut lost = of("lost\u{1b}[2J", 7, Vec::new());
        lost.hold = Some(Hold::MissingSegment { scope: "VECTOR" });
        PrunePlan {
            dir: "data".into(),
            schema: Schema {
                sysdb: 9,
                metadb: 4,
                embeddings_queue: 2,
            },
            queue_rows: 2600,
            rows: 2027,
            bytes: 456_000,
            collections: vec![
                big,
                lost,
                of(
                    "small",
                    50,
                    vec![
                        at("METADATA", Some(2554), None),
                        at("VECTOR", None, Some(Hold::NoPosition)),
                    ],
                ),
                of("empty", 0, vec![at("VECTOR", None, None)]),
            ],
            gone: GonePlan {
                collections: 1,
                queue_rows: 30,
                rows: 29,
                bytes: 6_000,
            },
            foreign_rows: 9,
            leftovers: vec![Leftover {
                path: "data/0b0b0b0b-215d-4dd1-9fbf-bdf2f81d36ba".into(),
                bytes: 4096,
            }],
            automatically_purge: AutoPurge::Off,
            change: PurgeChange::LeftOff,
        }
    }

    #[test]
    fn every_collection_says_why_its_rows_stay() {
        let text = text(&plan());
        for line in [
            "Chroma directory data, schema sysdb 9, metadb 4, embeddings_queue 2 (Chroma 0.5.6 to 0.6)",
            "from row 2000 on, the position of the VECTOR segment, and 1 before it that are the only copy of a record",
            "all: there is no VECTOR segment",
            "all: of the VECTOR segment, it has stored no position yet",
            "(1 deleted)",
            "the newest row of the log",
            "rows that cannot be assigned to a collection",
            "1 collections without rows in the log",
            "log: 2,027 of 2,600 rows can go, about 445.31 KiB (456,000 bytes)",
            "indexes of deleted collections: 1 folder can go, 4.00 KiB (4,096 bytes)",
            "automatically_purge: stays off",
        ] {
            assert!(text.contains(line), "no {line:?} in:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn the_object_has_the_fields_of_the_contract() {
        let object = to_json(&plan());
        let contract = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CLI.md"));
        let start = contract.find("### chroma").expect("the section");
        let contract = contract.get(start..).unwrap_or_default();
        let documented = |object: &Value| {
            for name in object.as_object().expect("an object").keys() {
                assert!(contract.contains(&format!("`{name}`")), "{name}");
            }
        };
        documented(&object);
        documented(&object["schema"]);
        documented(&object["collections"][0]);
        documented(&object["collections"][2]["segments"][1]);
        documented(&object["collections"][2]["segments"][1]["hold"]);
        assert_eq!(object["automatically_purge"], false);
        assert_eq!(object["collections"][0]["position"], 2000);
        assert_eq!(object["collections"][1]["hold"]["kind"], "missing_segment");
        for kind in [
            "no_position",
            "empty_index",
            "index_missing",
            "index_damaged",
            "bad_position",
            "position_beyond_end",
            "unknown_segment",
            "missing_segment",
            "several_topics",
            "unknown_operation",
        ] {
            assert!(contract.contains(&format!("`{kind}`")), "{kind}");
        }
    }
}

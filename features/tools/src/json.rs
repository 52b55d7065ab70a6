//! Results and errors as JSON: the contract of docs/CLI.md. The command and the C API both use it.

use crate::log::Figures;
use crate::{
    AutoVacuum, Checked, ConvertReport, Error, Form, Gain, Holder, Info, JournalMode, Object,
    ObjectKind, Objects, Salvaged, VacuumReport,
};
use densite_log::Subscriber;
use serde_json::{Map, Value, json};

/// The object of `densite info`.
pub fn info(info: &Info) -> Value {
    let store: Option<Map<_, _>> = info.store.as_ref().map(|figures| {
        figures
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect()
    });
    json!({
        "path": info.path.to_string_lossy(),
        "form": form(info.form),
        "logical_bytes": info.logical_bytes,
        "stored_bytes": info.stored_bytes,
        "allocated_bytes": info.allocated_bytes,
        "ratio": info.ratio(),
        "page_size": info.page_size,
        "pages": info.pages,
        "free_pages": info.free_pages,
        "program": info.program,
        "journal_mode": mode(info.journal_mode),
        "auto_vacuum": auto_vacuum(info.auto_vacuum),
        "journal_bytes": info.journal_bytes,
        "wal_bytes": info.wal_bytes,
        "wal_readers": info.wal_readers.iter().map(holder).collect::<Vec<_>>(),
        "files": info.files.iter().map(|p| p.to_string_lossy()).collect::<Vec<_>>(),
        "leftovers": info.leftovers.iter().map(|p| p.to_string_lossy()).collect::<Vec<_>>(),
        "store": store,
        "log": info.log.as_ref().map(|log| match log {
            Ok(figures) => self::log(figures),
            Err(problem) => json!({ "problem": problem }),
        }),
        "remote": info.remote.as_ref().map(|figures| {
            let figures = figures.iter().map(|(name, n)| (name.clone(), json!(n)));
            figures.collect::<Map<_, _>>()
        }),
        "vacuum": info.gain.as_ref().map(gain),
        "objects": objects(&info.objects),
        "objects_broken_pages": info.objects.broken,
        "objects_problem": info.objects_problem,
    })
}

fn holder(Holder { pid, name }: &Holder) -> Value {
    json!({ "pid": pid, "name": name })
}

/// The figures of a log.
pub fn log(figures: &Figures) -> Value {
    let (status, applied) = (&figures.status, figures.applied.as_ref());
    let subscriber = |s: &Subscriber| {
        json!({
            "name": s.name,
            "position": s.position,
            "rows_behind": s.rows_behind,
            "bytes_behind": s.bytes_behind,
        })
    };
    json!({
        "directory": figures.directory.to_string_lossy(),
        "id": figures.id.to_string(),
        "first": status.first,
        "last": status.last,
        "segments": status.segments,
        "bytes": status.bytes,
        "free_segment_bytes": status.free_segment_bytes,
        "applied": applied.map(|a| a.position.seq),
        "unapplied_rows": figures.unapplied_rows(),
        "unapplied_bytes": figures.unapplied_bytes,
        "oldest_unapplied_seconds": figures.oldest_unapplied().map(|time| time.as_secs_f64()),
        "applied_per_second": applied.map(|a| a.per_second),
        "applying": figures.is_led,
        "misfit": figures.misfit(),
        "rejects": applied.map(|a| a.rejects),
        "paused": applied.map(|a| a.paused.as_slice()),
        "auto_prune": status.config.auto_prune,
        "max_unapplied_bytes": status.config.max_unapplied_bytes,
        "retain_bytes": status.config.retain_bytes,
        "max_retained_bytes": status.config.max_retained_bytes,
        "subscribers": figures.subscribers.iter().map(subscriber).collect::<Vec<_>>(),
        "slowest": figures.slowest().map(subscriber),
    })
}

/// The object of `densite check`.
pub fn checked(checked: &Checked) -> Value {
    let problems: Vec<_> = checked
        .problems
        .iter()
        .map(
            |p| json!({ "what": p.what, "offset": p.offset, "page": p.page, "problem": p.problem }),
        )
        .collect();
    json!({
        "path": checked.path.to_string_lossy(),
        "form": form(checked.form),
        "ok": checked.ok(),
        "pages": checked.pages,
        "frames": checked.frames,
        "problems": problems,
        "cut": checked.cut,
        "integrity_check": checked.integrity_check,
        "not_verified": checked.not_verified,
        "damaged_trees": checked.damaged_trees,
        "remedies": checked.remedies(),
    })
}

/// The object of `densite salvage`.
pub fn salvaged(saved: &Salvaged) -> Value {
    let missing = |all: &[crate::Missing]| -> Vec<Value> {
        let one = |missing: &crate::Missing| {
            json!({
                "page": missing.page,
                "problem": missing.why,
                "first_id": missing.ids.map(|(first, _)| first),
                "last_id": missing.ids.map(|(_, last)| last),
            })
        };
        all.iter().map(one).collect()
    };
    let tables: Vec<Value> = (saved.tables.iter())
        .map(|table| {
            json!({
                "name": table.name,
                "rows": table.rows,
                "missing": missing(&table.missing),
                "found_again": table.found_again,
                "refused": table.refused,
                "why_refused": table.why_refused,
            })
        })
        .collect();
    json!({
        "verb": "salvage",
        "source": saved.source.to_string_lossy(),
        "form": form(saved.form),
        "destination": saved.destination.to_string_lossy(),
        "by_frames": saved.by_frames,
        "complete": saved.is_complete(),
        "tables": tables,
        "schema_missing": missing(&saved.schema_missing),
        "not_made": saved.not_made,
        "unknown": missing(&saved.unknown),
        "found_table": saved.found.as_ref().map(|(name, _)| name),
        "found_rows": saved.found.as_ref().map_or(0, |(_, rows)| *rows),
        "destination_bytes": saved.destination_bytes,
        "seconds": saved.elapsed.as_secs_f64(),
    })
}

/// The object of `densite compress` and `densite decompress`; `verb` says which.
pub fn converted(verb: &str, report: &ConvertReport) -> Value {
    json!({
        "verb": verb,
        "source": report.source.to_string_lossy(),
        "destination": report.destination.to_string_lossy(),
        "already": false,
        "in_place": report.in_place,
        "page_size": report.page_size,
        "pages": report.pages,
        "free_pages_zeroed": report.free_pages_zeroed,
        "free_pages_in_use": report.free_pages_in_use,
        "source_bytes": report.source_bytes,
        "destination_bytes": report.destination_bytes,
        "ratio": report.ratio(),
        "seconds": report.elapsed.as_secs_f64(),
    })
}

/// The object of `densite vacuum` for a database.
pub fn vacuumed(report: &VacuumReport) -> Value {
    json!({
        "verb": "vacuum",
        "path": report.path.to_string_lossy(),
        "dry_run": false,
        "form": form(report.form),
        "chroma": null,
        "replaced": report.replaced,
        "written_bytes": report.written_bytes,
        "page_size": report.page_size,
        "pages_before": report.pages_before,
        "pages_after": report.pages_after,
        "bytes_before": report.bytes_before,
        "bytes_after": report.bytes_after,
        "allocated_before_bytes": report.allocated_before,
        "allocated_after_bytes": report.allocated_after,
        "freed_bytes": report.freed_bytes(),
        "tables": report.tables,
        "indexes": report.indexes,
        "rows": report.rows,
        "seconds": report.elapsed.as_secs_f64(),
    })
}

/// The fields that `info` and `vacuum --dry-run` have in common.
pub fn gain(gain: &Gain) -> Map<String, Value> {
    let fields = json!({
        "live_bytes": gain.live_bytes,
        "dead_bytes": gain.dead_bytes,
        "free_bytes": gain.free_bytes,
        "unallocated_bytes": gain.unallocated_bytes,
        "unallocated_estimated": gain.estimated,
        "maintained_bytes": gain.maintained_bytes,
        "vacuumed_bytes": gain.vacuumed_bytes,
        "reclaimable_bytes": gain.reclaimable_bytes,
        "needed_bytes": gain.needed_bytes,
        // Rounded to tenths, because it is an estimate.
        "vacuum_seconds": (gain.seconds * 10.0).round() / 10.0,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// One object for each table and index.
pub fn objects(objects: &Objects) -> Vec<Value> {
    let codec = |name: &str| name.replace(['+', ' '], "_");
    let object = |o: &Object| {
        json!({
            "kind": kind(o.kind),
            "name": o.name,
            "table": o.table,
            "pages": o.pages,
            "raw_bytes": o.raw_bytes,
            "stored_bytes": o.stored_bytes,
            "ratio": o.ratio(),
            "unallocated_bytes": o.unallocated_bytes,
            "codecs": o.codecs.iter().map(|(name, n)| (codec(name), json!(n))).collect::<Map<_, _>>(),
            "model_pages": o.model_pages,
            "columns": o.columns.iter().map(|c| json!({ "name": c.name, "encodings": c.encodings })).collect::<Vec<_>>(),
        })
    };
    objects.all.iter().map(object).collect()
}

/// An error as JSON: kind, message, and the fields of `details`.
pub fn error(kind: &str, text: &str, details: Value) -> Value {
    let mut object = json!({ "kind": kind, "message": text });
    if let (Value::Object(object), Value::Object(details)) = (&mut object, details) {
        object.extend(details);
    }
    object
}

/// The fields of an error besides its message.
pub fn details(e: &Error) -> Value {
    let mut d = json!({});
    if let Some(path) = e.path() {
        d["path"] = json!(path.to_string_lossy());
    }
    match e {
        Error::Locked { by, .. } => {
            d["by"] = by.iter().map(holder).collect();
        }
        Error::NoSpace {
            needed, available, ..
        } => {
            d["needed_bytes"] = json!(needed);
            d["available_bytes"] = json!(available);
        }
        Error::NewerFormat {
            found, supported, ..
        } => {
            d["found"] = json!(found);
            d["supported"] = json!(supported);
        }
        _ => {}
    }
    d
}

/// The JSON name of a form.
pub fn form(form: Form) -> &'static str {
    match form {
        Form::Compressed => "compressed",
        Form::Plain => "plain",
        Form::Empty => "empty",
    }
}

/// The JSON name of a kind of object.
pub fn kind(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Table => "table",
        ObjectKind::WithoutRowid => "WITHOUT ROWID table",
        ObjectKind::Index => "index",
        ObjectKind::Overflow => "overflow",
        ObjectKind::Free => "free",
    }
}

fn auto_vacuum(setting: AutoVacuum) -> &'static str {
    match setting {
        AutoVacuum::None => "none",
        AutoVacuum::Full => "full",
        AutoVacuum::Incremental => "incremental",
    }
}

fn mode(mode: JournalMode) -> &'static str {
    match mode {
        JournalMode::Rollback => "rollback",
        JournalMode::Wal => "wal",
    }
}

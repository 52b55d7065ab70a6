//! Databases of well-known programs, which open them with a SQLite of their own: such a program
//! cannot open a compressed database.
//!
//! A program is recognised by the `application_id`, or by tables and columns that it has and others
//! do not: names alone would take the tables `sessions` and `messages` of any application for those
//! of another.

use densite_sqlite::{self as sqlite, Connection, Value};

/// A table and columns of it.
type Table = (&'static str, &'static [&'static str]);

/// The programs, by what their databases have.
const BY_TABLES: [(&str, &[Table]); 29] = [
    (
        CHROMA,
        &[
            ("migrations", &["dir", "filename"]),
            ("embeddings_queue", &["seq_id", "topic"]),
            ("max_seq_id", &["segment_id"]),
        ],
    ),
    (
        "Firefox or Thunderbird",
        &[("moz_places", &["url", "rev_host"])],
    ),
    (
        "Firefox or Thunderbird",
        &[("moz_cookies", &["host", "originAttributes"])],
    ),
    ("Firefox or Thunderbird", &[("moz_icons", &["icon_url"])]),
    (
        "Firefox or Thunderbird",
        &[("moz_formhistory", &["fieldname"])],
    ),
    (
        "Firefox or Thunderbird",
        &[("moz_perms", &["origin", "permission"])],
    ),
    (
        "Thunderbird",
        &[
            ("folderLocations", &["folderURI"]),
            ("messages", &["folderID", "messageKey"]),
        ],
    ),
    (
        CHROMIUM,
        &[
            ("meta", &["key", "value"]),
            ("visits", &["url", "visit_time"]),
            ("urls", &["visit_count"]),
        ],
    ),
    (
        CHROMIUM,
        &[
            ("meta", &["key", "value"]),
            ("cookies", &["host_key", "encrypted_value"]),
        ],
    ),
    (
        CHROMIUM,
        &[
            ("meta", &["key", "value"]),
            ("logins", &["origin_url", "password_value"]),
        ],
    ),
    (
        CHROMIUM,
        &[
            ("meta", &["key", "value"]),
            ("autofill", &["name", "value_lower"]),
        ],
    ),
    (
        CHROMIUM,
        &[
            ("meta", &["key", "value"]),
            ("icon_mapping", &["page_url", "icon_id"]),
        ],
    ),
    (
        CHROMIUM,
        &[
            ("meta", &["key", "value"]),
            ("top_sites", &["url", "url_rank"]),
        ],
    ),
    (
        "Anki",
        &[
            ("col", &["crt", "scm", "usn"]),
            ("notes", &["mid", "flds", "sfld"]),
            ("revlog", &["cid", "ease"]),
        ],
    ),
    (
        "Home Assistant",
        &[
            ("states", &["state_id"]),
            ("recorder_runs", &["run_id"]),
            ("schema_changes", &["schema_version"]),
        ],
    ),
    (
        "Signal",
        &[
            ("conversations", &["profileFullName"]),
            ("messages", &["conversationId", "sourceServiceId"]),
        ],
    ),
    ("Cursor", &[("cursorDiskKV", &["key", "value"])]),
    (
        "VS Code or another editor of this family",
        &[("ItemTable", &["key", "value"])],
    ),
    (
        "opencode",
        &[
            ("session", &["project_id"]),
            ("message", &["session_id", "data"]),
            ("part", &["message_id", "data"]),
        ],
    ),
    (
        "Crush or OpenCode",
        &[
            ("goose_db_version", &["version_id"]),
            ("sessions", &["parent_session_id", "prompt_tokens"]),
            ("messages", &["session_id", "parts"]),
        ],
    ),
    (
        "Codex",
        &[
            ("threads", &["rollout_path"]),
            ("_sqlx_migrations", &["checksum"]),
        ],
    ),
    (
        "goose",
        &[
            ("schema_version", &["version"]),
            ("sessions", &["working_dir"]),
            ("messages", &["session_id", "content_json"]),
        ],
    ),
    (
        "Calibre",
        &[
            ("books", &["series_index", "author_sort"]),
            ("books_authors_link", &["book", "author"]),
        ],
    ),
    (
        "IPython",
        &[
            ("sessions", &["session", "num_cmds"]),
            ("history", &["session", "source_raw"]),
        ],
    ),
    // Files of these formats can lack the `application_id`.
    (
        MBTILES,
        &[
            ("metadata", &["name", "value"]),
            (
                "tiles",
                &["zoom_level", "tile_column", "tile_row", "tile_data"],
            ),
        ],
    ),
    (
        GEOPACKAGE,
        &[
            ("gpkg_contents", &["table_name", "data_type"]),
            ("gpkg_spatial_ref_sys", &["srs_id"]),
        ],
    ),
    (
        FOSSIL,
        &[
            ("vfile", &["vid", "chnged", "pathname"]),
            ("vvar", &["name", "value"]),
        ],
    ),
    (
        "Firefox or Thunderbird",
        &[("webappsstore2", &["originKey", "scope"])],
    ),
    (
        "Firefox or Thunderbird",
        &[(
            "object_data",
            &["object_store_id", "index_data_values", "file_ids"],
        )],
    ),
];

/// The program whose directories `densite vacuum` prunes.
const CHROMA: &str = "Chroma";
const MBTILES: &str = "readers of MBTiles";
const GEOPACKAGE: &str = "QGIS, GDAL and other readers of GeoPackage";
const FOSSIL: &str = "Fossil";
const CHROMIUM: &str = "Chromium, Chrome or a program built on them";

/// The programs by `application_id` (SQLite's file magic.txt).
const BY_ID: [(i64, &str); 10] = [
    (0x0f05_5111, FOSSIL),
    (0x0f05_5112, FOSSIL),
    (0x0f05_5113, FOSSIL),
    (0x4265_4462, "Bentley's programs"),
    (0x4265_4c6e, "Bentley's programs"),
    (0x4573_7269, "Esri's programs"),
    (0x4750_4b47, GEOPACKAGE),
    (0x4750_3130, GEOPACKAGE),
    (0x4d50_4258, MBTILES),
    (0x5f4d_544e, "Monotone"),
];

/// The program whose database this is, if it is known.
///
/// # Errors
/// SQLite's.
pub(crate) fn program(db: &Connection) -> sqlite::Result<Option<&'static str>> {
    let id = db.query_i64("PRAGMA main.application_id")?.unwrap_or(0);
    if let Some((_, name)) = BY_ID.iter().find(|(known, _)| *known == id) {
        return Ok(Some(name));
    }
    for (name, tables) in BY_TABLES {
        let mut has = true;
        for (table, columns) in tables {
            has = has && has_columns(db, table, columns)?;
        }
        if has {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn has_columns(db: &Connection, table: &str, columns: &[&str]) -> sqlite::Result<bool> {
    let sql = "SELECT count(*) FROM pragma_table_info(?1, 'main') WHERE name = ?2";
    for column in columns {
        let mut found = db.prepare(sql)?;
        found.bind(1, &Value::Text(table.to_owned()))?;
        found.bind(2, &Value::Text((*column).to_owned()))?;
        if !found.step()? || found.column(0).as_i64() != Some(1) {
            return Ok(false);
        }
    }
    Ok(true)
}

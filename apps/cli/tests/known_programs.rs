//! Databases of well-known programs, which could not open them compressed: `advise` does not
//! recommend it, and `compress` in place refuses.

use crate::common::{at, densite, is_compressed, temp};
use rusqlite::Connection;

/// Schemas of real files, as far as they tell the program: chromadb 1.5, Firefox 140, Chromium 140,
/// Anki 26, Home Assistant 2024.3, Signal Desktop, VS Code, Cursor, opencode 1.2, Codex, IPython 9
/// and GeoPackage.
const PROGRAMS: [(&str, &str); 16] = [
    (
        "Chroma",
        "CREATE TABLE migrations(dir TEXT NOT NULL, version INTEGER NOT NULL, filename TEXT NOT NULL, sql TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY(dir, version));
         CREATE TABLE embeddings_queue(seq_id INTEGER PRIMARY KEY, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, operation INTEGER NOT NULL, topic TEXT NOT NULL, id TEXT NOT NULL, vector BLOB, encoding TEXT, metadata TEXT);
         CREATE TABLE max_seq_id(segment_id TEXT PRIMARY KEY, seq_id INTEGER NOT NULL)",
    ),
    (
        "Firefox",
        "CREATE TABLE moz_places(id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, rev_host LONGVARCHAR, visit_count INTEGER DEFAULT 0)",
    ),
    (
        "Firefox",
        "CREATE TABLE moz_cookies(id INTEGER PRIMARY KEY, originAttributes TEXT NOT NULL DEFAULT '', name TEXT, value TEXT, host TEXT)",
    ),
    (
        "Chromium",
        "CREATE TABLE meta(key LONGVARCHAR NOT NULL UNIQUE PRIMARY KEY, value LONGVARCHAR);
         CREATE TABLE urls(id INTEGER PRIMARY KEY AUTOINCREMENT, url LONGVARCHAR, title LONGVARCHAR, visit_count INTEGER DEFAULT 0 NOT NULL);
         CREATE TABLE visits(id INTEGER PRIMARY KEY AUTOINCREMENT, url INTEGER NOT NULL, visit_time INTEGER NOT NULL)",
    ),
    (
        "Chromium",
        "CREATE TABLE meta(key LONGVARCHAR NOT NULL UNIQUE PRIMARY KEY, value LONGVARCHAR);
         CREATE TABLE cookies(creation_utc INTEGER NOT NULL, host_key TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, encrypted_value BLOB NOT NULL)",
    ),
    (
        "Anki",
        "CREATE TABLE col(id INTEGER PRIMARY KEY, crt INTEGER NOT NULL, mod INTEGER NOT NULL, scm INTEGER NOT NULL, ver INTEGER NOT NULL, dty INTEGER NOT NULL, usn INTEGER NOT NULL);
         CREATE TABLE notes(id INTEGER PRIMARY KEY, guid TEXT NOT NULL, mid INTEGER NOT NULL, flds TEXT NOT NULL, sfld INTEGER NOT NULL);
         CREATE TABLE revlog(id INTEGER PRIMARY KEY, cid INTEGER NOT NULL, usn INTEGER NOT NULL, ease INTEGER NOT NULL)",
    ),
    (
        "Home Assistant",
        "CREATE TABLE states(state_id INTEGER NOT NULL PRIMARY KEY, state VARCHAR(255), metadata_id INTEGER);
         CREATE TABLE recorder_runs(run_id INTEGER NOT NULL PRIMARY KEY, start DATETIME NOT NULL);
         CREATE TABLE schema_changes(change_id INTEGER NOT NULL PRIMARY KEY, schema_version INTEGER, changed DATETIME)",
    ),
    (
        "Signal",
        "CREATE TABLE conversations(id STRING PRIMARY KEY ASC, json TEXT, profileFullName TEXT);
         CREATE TABLE messages(rowid INTEGER PRIMARY KEY ASC, id STRING UNIQUE, conversationId STRING, sourceServiceId TEXT)",
    ),
    (
        "VS Code",
        "CREATE TABLE ItemTable(key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)",
    ),
    (
        "Cursor",
        "CREATE TABLE ItemTable(key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB); CREATE TABLE cursorDiskKV(key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)",
    ),
    (
        "opencode",
        "CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT NOT NULL);
         CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT NULL, data TEXT NOT NULL);
         CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL, data TEXT NOT NULL)",
    ),
    (
        "Codex",
        "CREATE TABLE _sqlx_migrations(version BIGINT PRIMARY KEY, checksum BLOB NOT NULL);
         CREATE TABLE threads(id TEXT PRIMARY KEY, rollout_path TEXT NOT NULL)",
    ),
    (
        "IPython",
        "CREATE TABLE sessions(session INTEGER PRIMARY KEY AUTOINCREMENT, start TIMESTAMP, end TIMESTAMP, num_cmds INTEGER, remark TEXT);
         CREATE TABLE history(session INTEGER, line INTEGER, source TEXT, source_raw TEXT, PRIMARY KEY(session, line))",
    ),
    (
        "GeoPackage",
        "PRAGMA application_id=0x47504b47; CREATE TABLE gpkg_contents(table_name TEXT NOT NULL PRIMARY KEY)",
    ),
    (
        "MBTiles",
        "CREATE TABLE metadata(name TEXT, value TEXT); CREATE TABLE map(zoom_level INTEGER, tile_column INTEGER, tile_row INTEGER, tile_id TEXT);
         CREATE TABLE images(tile_id TEXT, tile_data BLOB);
         CREATE VIEW tiles AS SELECT zoom_level, tile_column, tile_row, tile_data FROM map JOIN images USING (tile_id)",
    ),
    (
        "Firefox",
        "CREATE TABLE webappsstore2(originAttributes TEXT, originKey TEXT, scope TEXT, key TEXT, value TEXT)",
    ),
];

const FILLED: &str = "CREATE TABLE filling(a);
    WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
      INSERT INTO filling SELECT 'the same text again ' || i FROM n";

#[test]
fn databases_of_known_programs_keep_their_form() {
    for (program, schema) in PROGRAMS {
        let dir = temp();
        let db = at(&dir, "a.db");
        let sql = Connection::open(&db).expect("open");
        sql.execute_batch(&format!("{schema}; {FILLED}"))
            .expect("made");
        sql.close().expect("closed");
        let before = std::fs::read(&db).expect("read");
        let advice = densite(&["advise", &db]).expect(0).out;
        assert!(
            advice.contains(program) && !advice.contains("densite compress"),
            "{advice}"
        );
        let info = densite(&["info", &db, "--json"]).expect(0).json();
        assert!(info["program"].to_string().contains(program), "{info}");
        let ran = densite(&["compress", &db, "--json"])
            .expect(1)
            .says(program)
            .says("densite vacuum");
        assert_eq!(ran.json()["error"]["kind"], "known_program");
        assert!(std::fs::read(&db).expect("read") == before);
        // A copy is not what the program opens.
        densite(&["compress", &db, &at(&dir, "copy.db")]).expect(0);
        densite(&["compress", &db, "--known-program"]).expect(0);
        assert!(is_compressed(&db), "{program}");
    }
}

#[test]
fn tables_of_the_same_names_are_of_any_program() {
    let dir = temp();
    let db = at(&dir, "a.db");
    let sql = Connection::open(&db).expect("open");
    sql.execute_batch(&format!(
        "CREATE TABLE sessions(id INTEGER PRIMARY KEY, user TEXT); CREATE TABLE messages(id INTEGER PRIMARY KEY, text TEXT);
         CREATE TABLE notes(id INTEGER PRIMARY KEY, text TEXT); CREATE TABLE migrations(id INTEGER PRIMARY KEY);
         CREATE TABLE meta(key TEXT, value TEXT); CREATE TABLE logins(user TEXT); CREATE TABLE states(id, name); {FILLED}"
    ))
    .expect("made");
    sql.close().expect("closed");
    let advice = densite(&["advise", &db]).expect(0).out;
    assert!(advice.contains("densite compress"), "{advice}");
    densite(&["compress", &db]).expect(0);
}

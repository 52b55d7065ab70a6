//! Which rows are deleted and which stay.

use crate::made::{AGES, Age, Coll, Made, Op};
use densite_tools::chroma::{CollectionPlan, Hold, PrunePlan, PurgeChange};
use rusqlite::types::Value;
use std::fs;

/// The plan for a collection.
fn of<'p>(plan: &'p PrunePlan, coll: &Coll) -> &'p CollectionPlan {
    plan.collections
        .iter()
        .find(|c| c.id == coll.id)
        .expect("it is listed")
}

/// Checks that no row of a collection is deleted, for this reason in one of its segments.
fn held_back(made: &Made, coll: &Coll, kind: &str) -> Hold {
    let before = made.rows();
    let pruned = made.prune().expect("pruned");
    let plan = of(&pruned.plan, coll);
    assert_eq!((plan.rows, plan.position), (0, None));
    let left: i64 = made
        .db
        .query_row(
            "SELECT count(*) FROM embeddings_queue WHERE topic LIKE '%' || ?",
            [&coll.id],
            |r| r.get(0),
        )
        .expect("a count");
    assert_eq!(left as u64, plan.queue_rows, "of {before:?}");
    let slowest = plan.slowest().and_then(|s| s.hold.clone());
    let hold = plan.hold.clone().or(slowest).expect("a reason");
    assert_eq!(hold.kind(), kind, "{hold}");
    hold
}

#[test]
fn rows_below_the_smallest_position_are_pruned_and_the_row_at_it_stays() {
    for age in AGES {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..100);
        made.persist(&a, 60);
        let plan = made.plan().expect("a plan");
        assert_eq!((plan.queue_rows, plan.rows), (100, 59), "{age:?}");
        let of_a = of(&plan, &a);
        assert_eq!(
            (
                of_a.position,
                of_a.first_row,
                of_a.last_row,
                of_a.only_copies
            ),
            (Some(60), Some(1), Some(100), 0)
        );
        assert_eq!(of_a.slowest().map(|s| s.scope.as_str()), Some("VECTOR"));
        assert!((59 * 50..59 * 300).contains(&plan.bytes), "{}", plan.bytes);
        assert_eq!(made.rows().len(), 100, "a plan must not change anything");

        let pruned = made.prune().expect("pruned");
        assert_eq!((pruned.rows, &pruned.plan), (59, &plan));
        assert_eq!(made.rows(), (60..=100).collect::<Vec<_>>(), "{age:?}");
        let again = made.prune().expect("pruned");
        assert_eq!(again.rows, 0);
        assert_eq!(made.rows().len(), 41);
    }
}

#[test]
fn a_metadata_segment_that_lags_counts_too() {
    for age in AGES {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..100);
        made.persist(&a, 60);
        made.position(&a.metadata, 20);
        made.prune().expect("pruned");
        assert_eq!(made.rows(), (20..=100).collect::<Vec<_>>(), "{age:?}");
    }
}

#[test]
fn a_segment_without_a_position_holds_everything_back() {
    for age in AGES {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..100);
        held_back(&made, &a, "no_position");
        // Chroma creates a folder at the first write.
        fs::create_dir(made.folder(&a)).expect("a folder");
        held_back(&made, &a, "no_position");
        // The same for the metadata segment.
        made.persist(&a, 60);
        made.db
            .execute("DELETE FROM max_seq_id WHERE segment_id = ?", [&a.metadata])
            .expect("gone");
        held_back(&made, &a, "no_position");
        made.raw_position(&a.metadata, Value::Integer(-1));
        held_back(&made, &a, "no_position");
    }
}

#[test]
fn an_index_without_a_position_holds_everything_back() {
    // Chroma 1.x was killed after it wrote the index and before it wrote the row.
    let mut made = Made::new(Age::New);
    let a = made.collection("a");
    made.add(&a, "id", 0..100);
    made.files(&a, None, &["id0"]);
    held_back(&made, &a, "no_position");
    // An upgraded index has its old position in the pickle.
    made.files(&a, Some(5), &["id0", "id1", "id2", "id3", "id4"]);
    assert_eq!(made.prune().expect("pruned").rows, 4);
}

#[test]
fn the_row_counts_if_the_pickle_has_the_position_of_the_upgrade() {
    for (age, left) in [(Age::Old, 30), (Age::Middle, 60), (Age::New, 60)] {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..100);
        let ids: Vec<String> = (0..60).map(|i| format!("id{i}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        made.files(&a, Some(30), &ids);
        // Before 0.5.6 Chroma writes no such row. If there is one, the smaller position counts.
        made.position(&a.vectors, 60);
        made.prune().expect("pruned");
        assert_eq!(made.rows().first(), Some(&left), "{age:?}");
    }
}

#[test]
fn before_the_upgrade_a_row_is_not_a_position_of_a_vector_segment() {
    let mut made = Made::new(Age::Old);
    let a = made.collection("a");
    made.add(&a, "id", 0..10);
    made.files(&a, None, &["id0"]);
    made.position(&a.vectors, 1);
    held_back(&made, &a, "no_position");
}

#[test]
fn a_missing_index_holds_everything_back_whatever_the_row_says() {
    for age in [Age::Middle, Age::New] {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..100);
        made.persist(&a, 60);
        for file in [
            "link_lists.bin",
            "length.bin",
            "data_level0.bin",
            "header.bin",
            "index_metadata.pickle",
        ] {
            let path = made.folder(&a).join(file);
            let bytes = fs::read(&path).expect("there");
            fs::remove_file(&path).expect("removed");
            let hold = held_back(&made, &a, "index_missing");
            assert!(hold.to_string().contains(file), "{hold}");
            fs::write(&path, bytes).expect("back");
        }
        fs::remove_dir_all(made.folder(&a)).expect("removed");
        held_back(&made, &a, "index_missing");
        assert_eq!(made.config_now().as_deref(), Some(crate::made::OFF));
    }
}

#[test]
fn a_damaged_index_holds_everything_back_and_is_named() {
    for age in AGES {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..100);
        made.persist(&a, 60);
        let folder = made.folder(&a);
        let damage = |file: &str, change: &dyn Fn(&mut Vec<u8>), words: &str| {
            let path = folder.join(file);
            let bytes = fs::read(&path).expect("there");
            let mut other = bytes.clone();
            change(&mut other);
            fs::write(&path, other).expect("damaged");
            let hold = held_back(&made, &a, "index_damaged").to_string();
            assert!(hold.contains(file) && hold.contains(words), "{hold}");
            fs::write(&path, bytes).expect("back");
        };
        damage("index_metadata.pickle", &|b| b.truncate(700), "at byte 6");
        damage(
            "index_metadata.pickle",
            &|b| b.clear(),
            "at byte 0: it ends too early",
        );
        damage(
            "index_metadata.pickle",
            &|b| b.fill(0),
            "at byte 0: Chroma's pickles do not have the instruction 0x00",
        );
        damage("header.bin", &|b| b.truncate(99), "length is not 100 bytes");
        damage("header.bin", &|b| b[0] = 2, "version");
        damage("header.bin", &|b| b[20] = 59, "59 elements");
        damage("data_level0.bin", &|b| b.truncate(60 * 20 - 1), "too few");
        damage("length.bin", &|b| b.clear(), "too few");
        fs::remove_file(folder.join("index_metadata.pickle")).expect("removed");
        let pickle = folder.join("index_metadata.pickle");
        fs::create_dir(&pickle).expect("a folder");
        let hold = held_back(&made, &a, "index_damaged").to_string();
        assert!(hold.contains("it is not a file"), "{hold}");
        // Opening a pipe could block forever.
        fs::remove_dir(&pickle).expect("removed");
        let made_pipe = std::process::Command::new("mkfifo").arg(&pickle).status();
        assert!(made_pipe.expect("mkfifo runs").success());
        held_back(&made, &a, "index_damaged");
    }
}

#[test]
fn an_index_without_records_holds_everything_back() {
    for age in AGES {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..10);
        for i in 0..10 {
            made.write(&a, Op::Delete, &format!("id{i}"));
        }
        made.persist(&a, 20);
        held_back(&made, &a, "empty_index");
    }
}

#[test]
fn the_only_copy_of_a_record_stays() {
    for age in AGES {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..50);
        let lost = made.write(&a, Op::Add, "lost");
        made.write(&a, Op::Update, "never there");
        let changed = made.write(&a, Op::Update, "lost");
        // A record that was added and deleted again is correctly in no index.
        made.write(&a, Op::Add, "short");
        made.write(&a, Op::Delete, "short");
        made.add(&a, "more", 0..50);
        let ids: Vec<String> = made
            .db
            .prepare("SELECT embedding_id FROM embeddings")
            .expect("a query")
            .query_map([], |r| r.get(0))
            .expect("ids")
            .map(|r| r.expect("an id"))
            .collect();
        // Another process wrote this record: it is in the metadata, but not in this index.
        made.persist_with(
            &a,
            100,
            ids.iter().map(String::as_str).filter(|id| *id != "lost"),
        );
        // The reverse: the record is in the index, but not in the metadata.
        made.db
            .execute("DELETE FROM embeddings WHERE embedding_id = 'id7'", [])
            .expect("gone");

        let pruned = made.prune().expect("pruned");
        let plan = of(&pruned.plan, &a);
        assert_eq!((plan.only_copies, plan.rows), (3, 99 - 3), "{age:?}");
        let mut left = vec![8, lost, changed];
        left.extend(100..=105);
        assert_eq!(made.rows(), left, "{age:?}");
        if age != Age::Old {
            assert_eq!(pruned.plan.change, PurgeChange::LeftOff);
        }

        // After a DELETE there is no record to keep.
        made.write(&a, Op::Delete, "lost");
        let pruned = made.prune().expect("pruned");
        assert_eq!(pruned.rows, 2, "{age:?}");
    }
}

#[test]
fn rows_of_a_deleted_collection_are_deleted() {
    for age in AGES {
        let mut made = Made::new(age);
        let (a, b) = (made.collection("a"), made.collection("b"));
        made.add(&a, "id", 0..10);
        made.add(&b, "id", 0..10);
        made.add(&a, "more", 0..10);
        made.add(&b, "more", 0..10);
        made.sql(&format!("DELETE FROM collections WHERE id = '{}'", b.id));
        // Its segments still name it: Chroma was killed during the deletion.
        let pruned = made.prune().expect("pruned");
        assert_eq!((pruned.rows, pruned.plan.foreign_rows), (0, 20), "{age:?}");
        made.sql(&format!(
            "DELETE FROM segments WHERE collection = '{}'",
            b.id
        ));
        let pruned = made.prune().expect("pruned");
        // The newest row stays.
        assert_eq!(
            (
                pruned.plan.gone.collections,
                pruned.plan.gone.rows,
                pruned.rows
            ),
            (1, 19, 19)
        );
        let mut left: Vec<i64> = (1..=10).chain(21..=30).collect();
        left.push(40);
        assert_eq!(made.rows(), left, "{age:?}");
    }
}

#[test]
fn rows_of_foreign_topics_stay() {
    let mut made = Made::new(Age::New);
    let a = made.collection("a");
    for topic in [
        "",
        "persistent://default/default/",
        "persistent://default/default/not-an-id",
        "persistent://default/99999999-0000-4000-8000-000000000000",
        "memory://default/default/99999999-0000-4000-8000-000000000000",
        "persistent:///default/99999999-0000-4000-8000-000000000000",
    ] {
        made.queue(topic, 0, "x");
    }
    made.add(&a, "id", 0..10);
    made.persist(&a, 16);
    let pruned = made.prune().expect("pruned");
    assert_eq!((pruned.rows, pruned.plan.foreign_rows), (9, 6));
    assert_eq!(made.rows(), [1, 2, 3, 4, 5, 6, 16]);
}

#[test]
fn equally_named_collections_have_positions_of_their_own() {
    for age in AGES {
        let mut made = Made::new(age);
        made.sql("INSERT INTO tenants VALUES('acme'); INSERT INTO databases VALUES('d1', 'archive', 'default_tenant'), ('d2', 'shop', 'acme'), ('d3', 'default_database', 'acme')");
        let colls: Vec<Coll> = [
            "00000000-0000-0000-0000-000000000000",
            "d1",
            "d2",
            "d3",
            "no such database",
        ]
        .into_iter()
        .map(|d| made.collection_in(d, "docs"))
        .collect();
        for i in 0..20 {
            for coll in &colls {
                made.write(coll, Op::Add, &format!("id{i}"));
            }
        }
        // The second collection has no index.
        for (i, coll) in colls.iter().enumerate() {
            if i != 1 {
                let position = (10 + i as i64) * 5 + i as i64 + 1;
                made.persist(coll, position);
            }
        }
        let pruned = made.prune().expect("pruned");
        let places: Vec<_> = pruned
            .plan
            .collections
            .iter()
            .map(|c| {
                (
                    c.tenant.as_deref(),
                    c.database.as_deref(),
                    c.name.as_str(),
                    c.rows,
                )
            })
            .collect();
        assert_eq!(
            places,
            [
                (None, None, "docs", 14),
                (Some("acme"), Some("default_database"), "docs", 13),
                (Some("acme"), Some("shop"), "docs", 12),
                (Some("default_tenant"), Some("archive"), "docs", 0),
                (Some("default_tenant"), Some("default_database"), "docs", 10),
            ],
            "{age:?}"
        );
        assert_eq!(pruned.rows, 49);
    }
}

#[test]
fn several_topics_of_one_collection_hold_back() {
    let mut made = Made::new(Age::New);
    let a = made.collection("a");
    made.add(&a, "id", 0..10);
    made.queue(&format!("persistent://other/default/{}", a.id), 0, "x");
    made.persist(&a, 10);
    held_back(&made, &a, "several_topics");
}

#[test]
fn a_position_beyond_the_end_holds_back() {
    for age in AGES {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..10);
        made.persist(&a, 10);
        made.position(&a.metadata, 11);
        held_back(&made, &a, "position_beyond_end");
    }
}

#[test]
fn an_invalid_position_holds_back() {
    for value in [
        Value::Text("9".into()),
        Value::Real(9.0),
        Value::Integer(-9),
        Value::Blob(vec![0, 0, 9]),
        Value::Blob([&[0u8; 23][..], &[9]].concat()),
        Value::Null,
    ] {
        let mut made = Made::new(Age::New);
        let a = made.collection("a");
        made.add(&a, "id", 0..10);
        made.persist(&a, 10);
        // The column normally has the affinity INTEGER. It keeps a blob, but converts a text of
        // digits.
        made.sql("DROP TABLE max_seq_id; CREATE TABLE max_seq_id(segment_id TEXT PRIMARY KEY, seq_id BLOB)");
        made.position(&a.metadata, 10);
        made.raw_position(&a.vectors, value);
        held_back(&made, &a, "bad_position");
    }
}

#[test]
fn segments_of_other_kinds_and_missing_ones_hold_back() {
    let cases = [
        (
            "UPDATE segments SET type = 'urn:chroma:segment/vector/hnsw-local-memory' WHERE scope = 'VECTOR'",
            "unknown_segment",
        ),
        (
            "UPDATE segments SET type = 'urn:chroma:segment/metadata/blockfile' WHERE scope = 'METADATA'",
            "unknown_segment",
        ),
        (
            "UPDATE segments SET scope = 'RECORD' WHERE scope = 'METADATA'",
            "missing_segment",
        ),
        (
            "DELETE FROM segments WHERE scope = 'METADATA'",
            "missing_segment",
        ),
        (
            "DELETE FROM segments WHERE scope = 'VECTOR'",
            "missing_segment",
        ),
        ("DELETE FROM segments", "missing_segment"),
        (
            "INSERT INTO segments SELECT 'x', 'urn:new', 'VECTOR', collection FROM segments LIMIT 1",
            "unknown_segment",
        ),
        (
            "UPDATE segments SET id = '../../etc' WHERE scope = 'VECTOR'",
            "unknown_segment",
        ),
    ];
    for (sql, kind) in cases {
        let mut made = Made::new(Age::New);
        let a = made.collection("a");
        made.add(&a, "id", 0..10);
        made.persist(&a, 10);
        made.sql(sql);
        held_back(&made, &a, kind);
        assert_eq!(
            made.config_now().as_deref(),
            Some(crate::made::OFF),
            "{sql}"
        );
    }
}

#[test]
fn an_unknown_operation_holds_back() {
    for op in [4, -1, 99] {
        let mut made = Made::new(Age::New);
        let a = made.collection("a");
        made.add(&a, "id", 0..10);
        made.queue(&a.topic(), op, "x");
        made.persist(&a, 10);
        let hold = held_back(&made, &a, "unknown_operation");
        assert_eq!(hold, Hold::UnknownOperation { row: 11 });
    }
}

#[test]
fn the_newest_row_stays_if_every_position_is_at_it() {
    for age in AGES {
        let mut made = Made::new(age);
        let a = made.collection("a");
        made.add(&a, "id", 0..10);
        made.persist(&a, 10);
        made.prune().expect("pruned");
        assert_eq!(made.rows(), [10], "{age:?}");
        // The next write is then above every position.
        assert_eq!(made.write(&a, Op::Add, "next"), 11);
    }
}

/// The folders that a plan would remove, by their names.
fn leftovers(made: &Made) -> Vec<String> {
    let plan = made.plan().expect("a plan");
    let name = |path: &std::path::Path| path.file_name()?.to_str().map(str::to_owned);
    plan.leftovers
        .iter()
        .filter_map(|l| name(&l.path))
        .collect()
}

#[test]
fn a_folder_that_no_segment_has_goes_and_all_others_stay() {
    for age in AGES {
        let mut made = Made::new(age);
        let [kept, half, gone] = ["kept", "half", "gone"].map(|name| made.collection(name));
        for coll in [&kept, &half, &gone] {
            made.add(coll, "id", 0..10);
            made.files(coll, Some(5), &["id0"]);
            fs::remove_file(made.folder(coll).join("held.txt")).expect("removed");
        }
        let dir = made.folder(&gone).parent().expect("a parent").to_path_buf();
        assert_eq!(leftovers(&made), [""; 0], "{age:?}");
        for coll in [&half, &gone] {
            made.sql(&format!("DELETE FROM collections WHERE id = '{}'", coll.id));
        }
        // The segments are still there.
        assert_eq!(leftovers(&made), [""; 0], "{age:?}");
        made.sql(&format!(
            "DELETE FROM segments WHERE collection = '{}'",
            gone.id
        ));
        made.sql(&format!(
            "DELETE FROM embeddings WHERE segment_id = '{}'",
            gone.vectors
        ));
        assert_eq!(leftovers(&made).join(" "), gone.vectors, "{age:?}");
        let plan = made.plan().expect("a plan");
        assert!(plan.leftovers[0].bytes >= 4096, "{:?}", plan.leftovers);
        // Names that Chroma does not give, and a link.
        let other = "0b0b0b0b-215d-4dd1-9fbf-bdf2f81d36ba";
        fs::create_dir(dir.join("notes")).expect("made");
        fs::create_dir(dir.join(other.to_uppercase())).expect("made");
        std::os::unix::fs::symlink(dir.join("notes"), dir.join(other)).expect("linked");
        fs::write(dir.join("1b0b0b0b-215d-4dd1-9fbf-bdf2f81d36ba"), "a file").expect("written");
        assert_eq!(leftovers(&made).join(" "), gone.vectors, "{age:?}");
        // An empty folder goes, too.
        let empty = "f00b0b0b-215d-4dd1-9fbf-bdf2f81d36ba";
        fs::create_dir(dir.join(empty)).expect("made");
        assert!(leftovers(&made).contains(&empty.to_owned()), "{age:?}");
        fs::remove_dir(dir.join(empty)).expect("removed");
        // What is no file of an index is of somebody.
        for name in ["notes.txt", "header.bin.bak"] {
            let file = made.folder(&gone).join(name);
            fs::write(&file, "x").expect("written");
            assert_eq!(leftovers(&made), [""; 0], "{age:?}, {name}");
            fs::remove_file(&file).expect("removed");
        }
        fs::create_dir(made.folder(&gone).join("folder")).expect("made");
        assert_eq!(leftovers(&made), [""; 0], "{age:?}");
        fs::remove_dir(made.folder(&gone).join("folder")).expect("removed");
        // A copy of the database can name them all.
        let copy = dir.join("chroma.sqlite3.bak");
        fs::copy(dir.join("chroma.sqlite3"), &copy).expect("copied");
        assert_eq!(leftovers(&made), [""; 0], "{age:?}");
        fs::write(&copy, "no database").expect("written");
        assert_eq!(leftovers(&made).join(" "), gone.vectors, "{age:?}");
    }
}

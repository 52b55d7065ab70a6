//! The page of `densite report`, as Chromium shows it.

use crate::common::*;
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// Names that contain markup or try to leave their context.
const NASTY: [&str; 4] = [
    "<script>document.title='run'</script>",
    "\"><img src=x onerror=\"document.title='run'\">",
    "</title></style><b id='out'>&amp;",
    "tür \u{202e}\n'; DROP",
];

/// A database with such tables, several kinds of objects, and every kind of space.
fn nasty(path: &str) {
    plain(path, 4096, 6000);
    let db = Connection::open(path).expect("open");
    for name in NASTY {
        let quoted = name.replace('"', "\"\"");
        db.execute_batch(&format!(
            "CREATE TABLE \"{quoted}\"(a, b); CREATE INDEX \"i{quoted}\" ON \"{quoted}\"(a);
             INSERT INTO \"{quoted}\" SELECT id, name FROM t LIMIT 500;"
        ))
        .expect("fill");
    }
}

/// Loads a page in Chromium; `None` if Chromium is not installed.
fn chromium(page: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let profile = temp();
    let out = Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ])
        // The page must not fetch anything. If it tries, the request fails at once.
        .args([
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--virtual-time-budget=2000",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{page}"))
        .env("HOME", profile.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match out {
        Ok(out) => {
            assert!(out.status.success(), "{out:?}");
            Some(out.stdout)
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            densite_testing::skip("chromium is not installed");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn the_page_shows_the_figures_and_has_no_scripts() {
    let dir = temp();
    let (a, b) = (at(&dir, "a&b <i>.db"), at(&dir, "b.db"));
    nasty(&a);
    densite(&["compress", &a, &b]).expect(0);
    densite(&["sql", &b, "UPDATE t SET score=score+1"]).expect(0);
    for db in [&a, &b] {
        let page = at(&dir, "page.html");
        densite(&["report", db, "-o", &page, "--yes"]).expect(0);
        let source = fs::read_to_string(&page).expect("UTF-8");
        for foreign in ["http:", "https:", "<script", "<img", "@import", "<link"] {
            assert!(!source.contains(foreign), "{foreign}");
        }
        let Some(dom) = chromium(&page, &["--dump-dom"]) else {
            return;
        };
        let dom = String::from_utf8(dom).expect("UTF-8");
        assert!(dom.contains("where its space is</title>"), "{dom}");
        for element in ["<script", "<img", "id=\"out\"", "<b "] {
            assert!(!dom.contains(element), "{element} became markup");
        }
        // Each name is shown as text, and the numbers of tables and indexes are right.
        assert!(dom.contains("&lt;script&gt;document.title='run'&lt;/script&gt;"));
        assert!(dom.contains("t\u{fc}r \u{fffd}\u{fffd}'; DROP"));
        let info = densite(&["info", db, "--json"]).expect(0).json();
        let named = info["objects"].as_array().expect("objects").iter();
        let named = named.filter(|o| o["name"].is_string()).count();
        assert!(dom.matches("<th scope=\"row\">").count() >= named);
        assert!(dom.matches("<rect class=").count() > 3);
        assert!(dom.matches("\" title=\"from ").count() > 10);
        assert!(dom.contains("densite vacuum "));
        // The reclaimable size is that of `vacuum --dry-run`, in the same format.
        let said = densite(&["vacuum", db, "--dry-run"]).expect(0).out;
        let reclaims = said
            .split("a vacuum reclaims: about ")
            .nth(1)
            .and_then(|s| s.split(" of").next())
            .expect("a figure");
        assert!(dom.contains(&format!("about {reclaims}")), "{reclaims}");
    }
}

#[test]
fn the_page_has_a_dark_mode() {
    let dir = temp();
    let (a, page) = (at(&dir, "a.db"), at(&dir, "page.html"));
    nasty(&a);
    densite(&["report", &a, "-o", &page]).expect(0);
    let mut shots = Vec::new();
    for scheme in ["1", "0"] {
        let shot = at(&dir, &format!("{scheme}.png"));
        let drawn = chromium(
            &page,
            &[
                &format!("--screenshot={shot}"),
                &format!("--blink-settings=preferredColorScheme={scheme}"),
                "--window-size=1000,1200",
            ],
        );
        if drawn.is_none() {
            return;
        }
        let bytes = fs::read(&shot).expect("a picture");
        assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 20_000);
        shots.push(bytes);
    }
    assert!(shots[0] != shots[1]);
}

#[test]
fn another_file_is_replaced_only_with_yes_and_the_database_never() {
    let dir = temp();
    let (a, page) = (at(&dir, "a.db"), at(&dir, "page.html"));
    plain(&a, 4096, 300);
    fs::write(&page, b"precious").expect("write");
    symlink("a.db", at(&dir, "link.html")).expect("symlink");
    fs::write(at(&dir, "a.db-wal"), b"").expect("write");
    let before = snapshot(dir.path());
    let link = at(&dir, "link.html");
    let wal = at(&dir, "a.db-wal");
    for (output, yes) in [
        (&page, false),
        (&a, false),
        (&a, true),
        (&link, true),
        (&wal, true),
    ] {
        let mut args = vec!["report", &a, "-o", output, "--json"];
        args.extend(yes.then_some("--yes"));
        let ran = densite(&args).expect(1).says("exists already");
        assert_eq!(ran.json()["error"]["kind"], "exists");
        assert!(snapshot(dir.path()) == before, "{output}");
    }
    densite(&["report", &a, "-o", &page, "--yes"]).expect(0);
    assert!(
        fs::read(&page)
            .expect("read")
            .starts_with(b"<!doctype html>")
    );
    assert_eq!(fs::read(&a).expect("read"), before[0].1);
    // A missing directory, and a file that is not a database.
    let nowhere = at(&dir, "no/page.html");
    densite(&["report", &a, "-o", &nowhere])
        .expect(1)
        .says("no such file");
    let new = at(&dir, "new.html");
    densite(&["report", &at(&dir, "x.db"), "-o", &new]).expect(1);
    fs::write(at(&dir, "x.db"), b"a,b\n1,2\n".repeat(2000)).expect("write");
    densite(&["report", &at(&dir, "x.db"), "-o", &new]).expect(5);
    assert!(!Path::new(&new).exists());
}

#[test]
fn a_link_is_neither_followed_nor_replaced() {
    let dir = temp();
    let a = at(&dir, "a.db");
    plain(&a, 4096, 300);
    let shared = dir.path().join("shared");
    fs::create_dir(&shared).expect("mkdir");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("mode");
    let victim = at(&dir, "victim");
    fs::write(&victim, b"private").expect("write");
    let nothing = at(&dir, "nothing");
    for to in [&victim, &nothing] {
        let page = shared.join("r.html");
        let page = page.to_str().expect("UTF-8");
        symlink(to, page).expect("symlink");
        for yes in [true, false] {
            let mut args = vec!["report", &a, "-o", page, "--json"];
            args.extend(yes.then_some("--yes"));
            let ran = densite(&args)
                .expect(1)
                .says("exists already and is a symbolic link");
            assert_eq!(ran.json()["error"]["kind"], "exists");
            assert_eq!(fs::read(&victim).expect("read"), b"private");
            assert!(!Path::new(&nothing).exists());
            assert_eq!(names(&shared), ["r.html"]);
        }
        fs::remove_file(page).expect("remove");
    }
}

#[test]
fn a_page_is_a_new_file_of_the_caller() {
    let dir = temp();
    let (a, page, other) = (at(&dir, "a.db"), at(&dir, "r.html"), at(&dir, "other"));
    plain(&a, 4096, 300);
    fs::write(&page, b"old").expect("write");
    // Another name of the old file keeps the old content.
    fs::hard_link(&page, &other).expect("link");
    fs::set_permissions(&page, fs::Permissions::from_mode(0o600)).expect("mode");
    densite(&["report", &a, "-o", &page, "--yes"]).expect(0);
    assert_eq!(fs::read(&other).expect("read"), b"old");
    let text = fs::read_to_string(&page).expect("UTF-8");
    assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"));
    let meta = fs::metadata(&page).expect("metadata");
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    assert_eq!(names(dir.path()), ["a.db", "other", "r.html"]);
    // A new file is as open as other new files.
    fs::remove_file(&page).expect("remove");
    let like = at(&dir, "like");
    fs::write(&like, b"").expect("write");
    densite(&["report", &a, "-o", &page]).expect(0);
    let mode = |path: &str| fs::metadata(path).expect("metadata").permissions().mode();
    assert_eq!(mode(&page) & 0o777, mode(&like) & 0o644);
    // A directory cannot be replaced.
    densite(&[
        "report",
        &a,
        "-o",
        dir.path().to_str().expect("UTF-8"),
        "--yes",
    ])
    .expect(1)
    .says("exists already");
}

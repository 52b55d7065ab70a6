//! `densite share`: man pages, completions, and the rules for file(1).

use crate::common::*;
use std::fs;
use std::process::Command;

/// Runs a program of the system; without it the test is skipped.
fn system(command: &mut Command) -> Option<Ran> {
    let name = command.get_program().to_string_lossy().into_owned();
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(&name).is_file()));
    match found {
        true => Some(run(command)),
        false => {
            densite_testing::skip(&format!("{name} is not installed"));
            None
        }
    }
}

fn shared() -> tempfile::TempDir {
    let dir = temp();
    densite(&["share", &at(&dir, "")]).expect(0);
    dir
}

#[test]
fn every_verb_has_a_man_page() {
    let dir = shared();
    let pages = names(&dir.path().join("man/man1"));
    let help = densite(&["--help"]).expect(0).out;
    assert!(
        help.contains("130 interrupted") && help.contains("https://"),
        "{help}"
    );
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs: Vec<&str> = verbs
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() > 12, "{verbs:?}");
    for verb in &verbs {
        assert!(
            pages.contains(&format!("densite-{verb}.1")),
            "{verb}: {pages:?}"
        );
    }
    assert!(
        pages.contains(&"densite-log-status.1".to_owned()),
        "{pages:?}"
    );
    assert!(
        !pages.iter().any(|page| page.contains("share")),
        "{pages:?}"
    );
    let page = fs::read_to_string(dir.path().join("man/man1/densite-load.1")).expect("a page");
    assert!(page.contains("upsert") && page.starts_with(".ie"), "{page}");
    let page = dir.path().join("man/man1/densite.1");
    if let Some(ran) = system(Command::new("man").arg("--warnings").arg("-l").arg(page)) {
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        assert!(ran.out.contains("densite"), "{ran:?}");
    }
}

#[test]
fn shells_read_the_completions() {
    let dir = shared();
    let bash = at(&dir, "bash-completion/completions/densite");
    let script = format!(
        "source '{bash}'; COMP_WORDS=(densite comp); COMP_CWORD=1; _densite densite comp densite; echo \"${{COMPREPLY[@]}}\"
         COMP_WORDS=(densite sql --for); COMP_CWORD=2; _densite densite --for sql; echo \"${{COMPREPLY[@]}}\""
    );
    if let Some(ran) = system(Command::new("bash").arg("-c").arg(script)) {
        assert_eq!(ran.expect(0).out, "compress\n--format\n");
    }
    let zsh = at(&dir, "zsh/site-functions/_densite");
    if let Some(ran) = system(Command::new("zsh").args(["-n", &zsh])) {
        ran.expect(0);
    }
    let fish = at(&dir, "fish/vendor_completions.d/densite.fish");
    if let Some(ran) = system(Command::new("fish").args(["--no-execute", &fish])) {
        ran.expect(0);
    }
    assert!(
        fs::read_to_string(&zsh)
            .expect("read")
            .starts_with("#compdef densite")
    );
    assert!(
        fs::read_to_string(&fish)
            .expect("read")
            .contains("complete -c densite")
    );
}

#[test]
fn file_knows_the_magic() {
    let dir = shared();
    let magic = at(&dir, "densite/densite.magic");
    let db = at(&dir, "a.db");
    let sql = "CREATE TABLE t(a); CREATE VIRTUAL TABLE temp.i USING densite_ingest(t); INSERT INTO i VALUES (1);";
    densite(&["sql", "--create", &db, sql]).expect(0);
    let file = |path: &str| system(Command::new("file").args(["-b", "-m", &magic, path]));
    if let Some(ran) = file(&db) {
        assert_eq!(
            ran.expect(0).out,
            "Densite database (compressed SQLite), format version 1\n"
        );
    }
    // In the file that users have for their own rules, beside those of the system.
    fs::copy(&magic, at(&dir, ".magic")).expect("copied");
    let plain = at(&dir, "plain.db");
    crate::common::plain(&plain, 4096, 1);
    for (path, begin) in [(&db, "Densite database ("), (&plain, "SQLite 3.x database")] {
        let mut file = Command::new("file");
        let file = file.args(["-b", path]).env("HOME", dir.path());
        if let Some(ran) = system(file.env_remove("MAGIC")) {
            assert!(ran.out.starts_with(begin), "{ran:?}");
        }
    }
    let log = dir.path().join("a.db-log");
    let mut seen = 0;
    for name in names(&log).iter().filter(|name| !name.contains("lock")) {
        let path = log.join(name);
        if fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"Densite log"))
            && let Some(ran) = file(&path.to_string_lossy())
        {
            assert!(ran.out.starts_with("Densite log "), "{name}: {ran:?}");
            seen += 1;
        }
    }
    assert!(
        seen > 0 || system(&mut Command::new("file")).is_none(),
        "no file of the log"
    );
}

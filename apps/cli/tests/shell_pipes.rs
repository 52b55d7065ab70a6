//! Commands of the system in the shell: `.once |COMMAND`, `.output |COMMAND`, `.read |COMMAND` and
//! `.import '|COMMAND' TABLE`.

use crate::common::*;
use std::fs;

fn shell(dir: &tempfile::TempDir, text: &str) -> Ran {
    let db = at(dir, "a.db");
    let args = ["sql", "--create", &db, "--format", "csv"];
    let ran = piped(&args, text.as_bytes());
    let made: Vec<String> = names(dir.path());
    let strange = made.iter().find(|name| name.starts_with(['|', '-']));
    assert_eq!(strange, None, "a file of that name");
    ran
}

#[test]
fn results_go_to_commands_which_are_waited_for() {
    let dir = temp();
    let file = at(&dir, "out");
    let text = format!(
        "SELECT 0 AS a;\n.once |tr a-z A-Z | sed 's/$/ ;'\"'/\"\nSELECT 'x y' AS a;\nSELECT 2 AS b;\n\
         .output | (sleep 0.3; cat; echo end)\nSELECT 3 AS c;\nSELECT 4 AS c;\n.show\n.output\n\
         SELECT 5 AS d;\n.once '|cat > {file}'\nSELECT 6 AS e;\n.output |cat\nSELECT 7 AS f;\n"
    );
    let ran = shell(&dir, &text).expect(0);
    let out = ran.out;
    let shown = out.find(" database:").zip(out.find("end\n"));
    let (from, to) = shown.expect("the settings");
    assert_eq!(&out[..from], "a\n0\nA ;'\nX Y ;'\nb\n2\nc\n3\nc\n4\n");
    assert!(
        out[from..to].contains("output: |(sleep 0.3; cat; echo end)"),
        "{out}"
    );
    assert_eq!(&out[to..], "end\nd\n5\nf\n7\n");
    assert_eq!(fs::read_to_string(&file).expect("read"), "e\n6\n");
}

#[test]
fn a_command_that_stops_reading_ends_neither_statement_nor_script() {
    let dir = temp();
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n";
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n LIMIT 100000)";
    let text = format!(
        ".once |head -n 2\n{endless};\nCREATE TABLE t(a);\n.once |true\n\
         INSERT INTO t {many} SELECT i FROM n RETURNING a;\n.output |head -n 1\n{many} SELECT i FROM n;\n\
         SELECT 2 AS b;\n.dump\n.output\nSELECT count(*) AS n FROM t;\n"
    );
    let ran = shell(&dir, &text).expect(0);
    assert_eq!(ran.out, "i\n1\ni\nn\n100000\n");
}

#[test]
fn an_exit_code_is_the_commands_own_affair_and_a_missing_command_is_one() {
    let dir = temp();
    let ran = shell(&dir, ".once |grep nothing\nSELECT 1;\nSELECT 2 AS a;\n").expect(0);
    assert_eq!(ran.out, "a\n2\n");
    let ran = shell(&dir, ".once |\nSELECT 1;\n").expect(1);
    ran.says("there is no command behind the |");
}

#[test]
fn commands_of_the_system_run_between_statements() {
    let dir = temp();
    let text =
        "SELECT 1 AS a;\n.shell echo \"x  'y\"'\"' | tr x z\n.system cat; exit 3\nSELECT 2 AS b;\n";
    let ran = shell(&dir, text).expect(0);
    assert_eq!(ran.out, "a\n1\nz  'y\"\nb\n2\n");
    assert!(
        ran.err.contains("the command failed: exit status: 3"),
        "{ran:?}"
    );
    shell(&dir, ".shell\n")
        .expect(1)
        .says("the command is .shell COMMAND");
}

#[test]
fn results_go_nowhere_and_slips_make_no_files() {
    let dir = temp();
    let ran = shell(&dir, ".output off\nSELECT 1;\n.output\nSELECT 2 AS a;\n").expect(0);
    assert_eq!(ran.out, "a\n2\n");
    for line in [".once -e", ".output --bom x", ".once -x"] {
        let ran = shell(&dir, &format!("{line}\nSELECT 1;\n")).expect(1);
        assert!(ran.out.is_empty(), "{ran:?}");
    }
}

#[test]
fn scripts_and_rows_come_from_commands() {
    let dir = temp();
    let text = ".read |echo \"SELECT 1 AS a;\"; echo '.print b'\nSELECT 2 AS c;\n\
                .import '|printf \"x,y\\n1,2\\n\"' t\nSELECT y FROM t;\n";
    let ran = shell(&dir, text).expect(0);
    assert_eq!(ran.out, "a\n1\nb\nc\n2\ny\n2\n");
    // A part of the output is not taken for all of it.
    for (text, words) in [
        (
            ".import '|printf \"3,4\\n\"; exit 7' t\n",
            "the command failed: exit status: 7",
        ),
        (".read |echo 'SELECT 1;'; exit 3\n", "exit status: 3"),
    ] {
        shell(&dir, text).expect(1).says(words);
        let ran = shell(&dir, "SELECT count(*) AS n FROM t;\n");
        assert_eq!(ran.out, "n\n1\n");
    }
}

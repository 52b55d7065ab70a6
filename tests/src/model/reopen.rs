//! Closes all connections, checks the files, and opens them again.

use super::digest::Memory;
use super::outcome::Outcome;
use super::side::{Flavour, Side, is_densite};

pub(crate) fn reopen(
    side: &mut Side,
    memory: &mut Memory,
    settings: &str,
    keep_second: bool,
    check: bool,
) -> Result<Outcome, String> {
    if !keep_second {
        memory.snapshot = None;
        side.second = None;
    }
    if let Some(main) = side.main.take()
        && let Err((_, error)) = main.close()
    {
        return Err(format!("close: {error}"));
    }
    let files = side.files();
    if side.flavour == Flavour::Densite {
        // Closing another descriptor would drop the locks of this process on the file.
        if side.second.is_none() {
            if !is_densite(&side.path("main.db")) {
                return Err("main.db is not a Densite file".to_owned());
            }
            if check {
                check_store(side, "main.db")?;
            }
        }
        side.settings = settings.to_owned();
    }
    side.open_main()
        .map_err(|e| format!("open again with {settings}: {e}"))?;
    let blobs: i64 = side
        .main()
        .query_row("SELECT count(*) FROM keep_blobs", [], |r| r.get(0))
        .map_err(|e| format!("read after opening again with {settings}: {e}"))?;
    let mut text = files;
    text.push(format!("{blobs} blobs"));
    Ok(Outcome::of_text(Some(side.main()), text))
}

/// Verifies every frame and the accounting of a file without open connections.
pub(crate) fn check_store(side: &Side, name: &str) -> Result<(), String> {
    let path = side.path(name);
    let open = || -> densite_store::Result<densite_store::CheckReport> {
        let file = densite_disk::RealFile::open(&path, densite_disk::OpenMode::Read)?;
        let options = densite_store::Options {
            read_only: true,
            threads: 0,
            ..Default::default()
        };
        let identity = format!("check {}", path.display());
        let mut handle = densite_store::Handle::open(Box::new(file), &identity, options)?;
        handle.check(&mut |_, _| true)
    };
    let report = open().map_err(|e| format!("check of {name}: {e}"))?;
    if !report.problems.is_empty() || report.cut.is_some() {
        return Err(format!(
            "check of {name}: {:?}, cut: {:?}",
            report.problems, report.cut
        ));
    }
    if !report.clean {
        return Err(format!("{name} was not closed cleanly"));
    }
    Ok(())
}

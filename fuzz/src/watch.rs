//! The parent process: starts the worker, watches its progress, and saves the input that stopped
//! it.

use crate::worker::FAILED;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// The newest input in the status file.
struct Last {
    target: String,
    run: u64,
    bytes: Vec<u8>,
}

fn read(status: &Path) -> Option<Last> {
    let all = fs::read(status).ok()?;
    let (len, rest) = all.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*len))?;
    let (run, rest) = rest.split_at_checked(8)?;
    let (len, rest) = rest.split_at_checked(8)?;
    let word = |b: &[u8]| b.try_into().ok().map(u64::from_le_bytes);
    let bytes = rest.get(..usize::try_from(word(len)?).ok()?)?.to_vec();
    Some(Last {
        target: String::from_utf8(name.to_vec()).ok()?,
        run: word(run)?,
        bytes,
    })
}

/// Runs this program's arguments in a worker, where an input can take no longer than `patience`.
/// Returns whether no input failed.
pub(crate) fn run(seed: u64, found: &Path, patience: Duration) -> Result<bool, String> {
    fs::create_dir_all(found).map_err(|e| format!("cannot make {}: {e}", found.display()))?;
    let status = found.join(format!("status-{}", std::process::id()));
    let program =
        std::env::current_exe().map_err(|e| format!("this program cannot be found: {e}"))?;
    // The worker needs the seed that was chosen here. clap refuses a seed that is given twice.
    let mut args: Vec<_> = std::env::args_os().skip(1).collect();
    if !args
        .iter()
        .any(|a| a.to_string_lossy().starts_with("--seed"))
    {
        args.push(format!("--seed={seed}").into());
    }
    let child = Command::new(program)
        .args(args)
        .arg("--worker")
        .arg(&status)
        .spawn();
    let mut child = child.map_err(|e| format!("cannot start the worker: {e}"))?;
    let (ended, hung) = wait(&mut child, &status, patience)?;
    let ok = ended.success();
    let last = read(&status);
    let _ = fs::remove_file(&status);
    if ok {
        return Ok(true);
    }
    if ended.code().is_some_and(|c| c != FAILED) {
        return Err("the worker could not run the inputs; its message is above".to_owned());
    }
    let how = match ended.signal() {
        _ if hung => format!("did not end within {} s", patience.as_secs()),
        Some(signal) => {
            format!("ended the process by signal {signal} (out of memory, or the stack)")
        }
        None => "failed".to_owned(),
    };
    let Some(Last { target, run, bytes }) = last else {
        return Err(format!(
            "an input {how}, but the status file does not say which one"
        ));
    };
    let sum: u64 = bytes.iter().fold(0xCBF2_9CE4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01B3)
    });
    let path = found.join(format!("{target}-{sum:016x}"));
    fs::write(&path, &bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    eprintln!(
        "{target}: an input of {} bytes {how} (seed {seed}, run {run}).",
        bytes.len()
    );
    eprintln!("Saved. Again: densite-fuzz --replay {}", path.display());
    Ok(false)
}

/// Waits for the worker's end; ends it when one input takes too long.
fn wait(
    child: &mut Child,
    status: &Path,
    patience: Duration,
) -> Result<(ExitStatus, bool), String> {
    let mut seen = (0, Instant::now());
    let mut hung = false;
    loop {
        if let Some(ended) = child
            .try_wait()
            .map_err(|e| format!("cannot wait for the worker: {e}"))?
        {
            return Ok((ended, hung));
        }
        std::thread::sleep(Duration::from_millis(20));
        let run = read(status).map_or(0, |l| l.run);
        if run != seen.0 {
            seen = (run, Instant::now());
        } else if seen.1.elapsed() > patience && !hung {
            hung = true;
            child
                .kill()
                .map_err(|e| format!("cannot end the worker: {e}"))?;
        }
    }
}

//! A process of a history: starts it, reads its output, and kills it according to its plan.

use super::child::{DB, NAME, ROLE, SEED, VFS};
use super::random::Random;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A process that takes longer than this, even on a busy machine, counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// When a process is killed.
#[derive(Debug, Clone)]
pub(crate) enum Kill {
    /// This long after it has printed a line with this start, for the nth time.
    After(&'static str, u64, Duration),
    /// This long after its start.
    At(Duration),
    /// Never.
    Never,
}

impl Kill {
    /// At a moment within one of these phases, at one of its first `most` occurrences.
    pub(crate) fn within(phases: &[&'static str], most: u64, random: &mut Random) -> Kill {
        let phase = phases[random.below(phases.len() as u64) as usize];
        // Most phases last some hundred microseconds. Some, with a slow sync, last milliseconds.
        let longest = [100, 700, 3000, 12_000][random.below(4) as usize];
        Kill::After(phase, 1 + random.below(most), random.micros(longest))
    }
}

/// The output of a process, and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) lines: Vec<String>,
    pub(crate) killed: bool,
}

impl Ended {
    /// The last phase that it printed.
    pub(crate) fn phase(&self) -> &str {
        let phases = self.lines.iter().rev();
        phases
            .map(|line| line.split(' ').next().unwrap_or_default())
            .find(|word| *word != "row")
            .unwrap_or("starting")
    }

    /// The number after this word, in the last line that begins with it.
    pub(crate) fn number(&self, word: &str) -> Option<u64> {
        let line = self
            .lines
            .iter()
            .rev()
            .find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        line.map(|number| number.parse().expect("a number"))
    }
}

/// The database of a history.
pub(crate) struct Place {
    pub(crate) db: String,
    pub(crate) vfs: &'static str,
}

impl Place {
    /// Starts this program in a role.
    pub(crate) fn start(&self, role: &str, name: &str, random: &mut Random) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "child", "--nocapture"])
            .env(DB, &self.db)
            .env(VFS, self.vfs)
            .env(ROLE, role)
            .env(NAME, name)
            .env(SEED, random.next().to_string());
        Process::start(command, Some('+'))
    }
}

pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts a command. Its output begins after `mark` in each line, or at the start of the line.
    pub(crate) fn start(mut command: Command, mark: Option<char>) -> Process {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // A line that the kill cut short has no meaning.
            while out.read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
                let said = match mark {
                    Some(mark) => line.split_once(mark).map(|(_, said)| said),
                    None => Some(line.as_str()),
                };
                if let Some(said) = said {
                    tell.send(said.trim_end().to_owned()).ok();
                }
                line.clear();
            }
        });
        Process { child, lines }
    }

    /// Reads its output until it ends or is killed. `over` can end it before its plan does.
    pub(crate) fn run(mut self, plan: &Kill, over: &dyn Fn() -> bool) -> Ended {
        let begun = Instant::now();
        let (mut heard, mut times, mut ends) = (Vec::new(), 0, false);
        if let Kill::At(delay) = plan {
            std::thread::sleep(*delay);
            self.child.kill().expect("kills");
        }
        loop {
            match self.lines.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => {
                    if let Kill::After(phase, nth, delay) = plan
                        && line.starts_with(phase)
                    {
                        times += 1;
                        if times == *nth {
                            wait_exactly(*delay);
                            heard.push(line);
                            break;
                        }
                    }
                    heard.push(line);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    ends = true;
                    break;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if over() {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "it hangs: {heard:?}");
        }
        if !ends {
            self.child.kill().expect("kills");
        }
        let status = self.child.wait().expect("ends");
        // Adds the remaining output.
        heard.extend(self.lines.iter());
        let killed = status.signal() == Some(9);
        assert!(killed || status.success(), "it failed: {status}, {heard:?}");
        Ended {
            lines: heard,
            killed,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Waits exactly. The sleep of the system takes some fifty microseconds longer than requested.
fn wait_exactly(delay: Duration) {
    let begun = Instant::now();
    if delay > Duration::from_millis(1) {
        std::thread::sleep(delay - Duration::from_millis(1));
    }
    while begun.elapsed() < delay {
        std::hint::spin_loop();
    }
}

//! A process of a history: started, listened to, and killed when its plan says so.

use super::child::{DB, NAME, ROLE, SEED, VFS};
use super::random::Random;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A process may take so long, on a busy machine, until it is said to hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// When a process is killed.
#[derive(Debug, Clone)]
pub(crate) enum Kill {
    /// So long after it has said a line that begins with this, for the nth time.
    After(&'static str, u64, Duration),
    /// So long after it was started.
    At(Duration),
    /// Not before it ends of itself.
    Never,
}

impl Kill {
    /// At a moment within one of these phases, one of the first `most` of its kind.
    pub(crate) fn within(phases: &[&'static str], most: u64, random: &mut Random) -> Kill {
        let phase = phases[random.below(phases.len() as u64) as usize];
        // Most phases are over after some hundred microseconds, some, with a slow sync, only after milliseconds.
        let longest = [100, 700, 3000, 12_000][random.below(4) as usize];
        Kill::After(phase, 1 + random.below(most), random.micros(longest))
    }
}

/// What a process said, and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) lines: Vec<String>,
    pub(crate) killed: bool,
}

impl Ended {
    /// The last phase that it named.
    pub(crate) fn phase(&self) -> &str {
        let phases = self.lines.iter().rev();
        phases
            .map(|line| line.split(' ').next().unwrap_or_default())
            .find(|word| *word != "row")
            .unwrap_or("starting")
    }

    /// The number behind this word, of the last line that begins with it.
    pub(crate) fn number(&self, word: &str) -> Option<u64> {
        let line = self
            .lines
            .iter()
            .rev()
            .find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        line.map(|number| number.parse().expect("a number"))
    }
}

/// Where a history takes place.
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
    /// Starts a command. What it says begins behind `mark` in each line, or with the line.
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
            // A line that the kill cut short tells nothing.
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

    /// Listens until it has ended or is killed. `over` may end it before its plan does.
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
        // All that it had said by then.
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

/// The system's sleep takes some fifty microseconds longer than it was asked to.
fn wait_exactly(delay: Duration) {
    let begun = Instant::now();
    if delay > Duration::from_millis(1) {
        std::thread::sleep(delay - Duration::from_millis(1));
    }
    while begun.elapsed() < delay {
        std::hint::spin_loop();
    }
}

//! What child processes report.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};

/// The numbers behind `acknowledged` in the output of a child, whose stdout is a pipe. A thread
/// collects them until the child ends.
pub fn acknowledged(child: &mut Child) -> Receiver<i64> {
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let (tell, acknowledged) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let number = line.split("acknowledged ").nth(1);
            if let Some(number) = number.and_then(|n| n.trim().parse().ok()) {
                tell.send(number).ok();
            }
        }
    });
    acknowledged
}

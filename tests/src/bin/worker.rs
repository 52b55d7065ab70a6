//! A child process of the tests; see `densite_tests::procs`.

fn main() {
    // A panic of any thread ends the process, so that its message is not lost among messages of
    // other threads.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::exit(1);
    }));
    let args: Vec<String> = std::env::args().skip(1).collect();
    densite_tests::procs::work(&args);
}

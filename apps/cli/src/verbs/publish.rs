//! `densite publish SRC DST`

use crate::args::{Common, PublishArgs};
use crate::ask::consent;
use crate::failure::Outcome;
use crate::progress::Bar;
use crate::sqlite;
use densite_tools::ConvertOptions;

pub(crate) fn run(common: Common, args: &PublishArgs) -> Outcome {
    let api = sqlite::api()?;
    let options = ConvertOptions {
        store: args.level.store(),
        wait: args.lock.timeout,
        ..ConvertOptions::default()
    };
    if args.dst.exists() {
        // Nothing is asked about what cannot be done.
        densite_tools::can_publish(api, &args.src, &args.dst, &options)?;
        consent(common, &format!("Replace {}?", args.dst.display()))?;
    }
    let mut bar = Bar::interruptible(common)?;
    let report = densite_tools::publish(api, &args.src, &args.dst, &options, &mut bar);
    drop(bar);
    super::converted::tell(common, "publish", Some(&args.dst), report)?;
    Ok(0)
}

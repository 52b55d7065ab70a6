//! `densite decompress SRC [DST]`

use crate::args::{Common, DecompressArgs};
use crate::failure::Outcome;
use crate::progress::Bar;
use crate::sqlite;
use densite_tools::ConvertOptions;

pub(crate) fn run(common: Common, args: &DecompressArgs) -> Outcome {
    let api = sqlite::api()?;
    let mut bar = Bar::interruptible(common)?;
    let options = ConvertOptions {
        wait: args.lock.timeout,
        ..ConvertOptions::default()
    };
    let dst = args.dst.as_deref();
    let report = densite_tools::decompress(api, &args.src, dst, &options, &mut bar);
    drop(bar);
    super::converted::tell(common, "decompress", args.dst.as_deref(), report)?;
    Ok(0)
}

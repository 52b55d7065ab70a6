//! `densite decompress SRC [DST]`

use crate::args::{Common, DecompressArgs};
use crate::failure::Outcome;
use crate::progress::Bar;
use crate::sqlite;
use densite_tools::ConvertOptions;

pub(crate) fn run(common: Common, args: &DecompressArgs) -> Outcome {
    let api = sqlite::api()?;
    let mut bar = Bar::interruptible(common)?;
    let report = densite_tools::decompress(
        api,
        &args.src,
        args.dst.as_deref(),
        &ConvertOptions::default(),
        &mut bar,
    );
    drop(bar);
    super::converted::tell(common, "decompress", args.dst.as_deref(), report)?;
    Ok(0)
}

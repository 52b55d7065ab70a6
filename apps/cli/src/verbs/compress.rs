//! `densite compress SRC [DST]`

use crate::args::{Common, CompressArgs};
use crate::failure::Outcome;
use crate::progress::Bar;
use crate::{out, shown, sqlite};
use densite_tools::{ConvertOptions, DecodedCache};

pub(crate) fn run(common: Common, args: &CompressArgs) -> Outcome {
    let mut options = ConvertOptions {
        store: args.level.store(),
        archive: args.archive,
        keeps_damage: args.keep_damage,
        known_program: args.known_program,
        page_size: args.page_size,
        not_larger: !args.even_if_larger,
        wait: args.lock.timeout,
    };
    if let Some(threads) = args.threads {
        options.store.threads = threads;
    }
    if let Some(bytes) = args.cache_size {
        options.store.decoded_cache = DecodedCache::Bytes(bytes);
    }
    let api = match args.page_size {
        // VACUUM INTO evaluates the expressions of the schema.
        Some(_) => sqlite::api()?,
        None => sqlite::api_for_pages()?,
    };
    let mut bar = Bar::interruptible(common)?;
    let report = densite_tools::compress(api, &args.src, args.dst.as_deref(), &options, &mut bar);
    drop(bar);
    if let Ok(report) = &report
        && report.free_pages_in_use > 0
    {
        out::warning(&format!(
            "{}: {} pages are on the list of free pages and in use; the compressed database has no such list, so that nothing writes over them; densite vacuum makes it sound",
            shown::path(&report.destination),
            out::thousands(report.free_pages_in_use),
        ));
    }
    super::converted::tell(common, "compress", args.dst.as_deref(), report)?;
    Ok(0)
}

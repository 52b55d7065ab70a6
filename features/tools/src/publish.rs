//! Publishing: a compressed copy whose parts lie as a reader on a slow line needs them.
//!
//! First come the leaves of the b-trees, each tree in the order of its keys, and the small trees
//! first: the first request, which every reader sends, brings some of them. The pages that are in
//! no b-tree, as overflow pages are, count as one tree. At the end of the file, in one commit, are
//! the interior pages, the schema, the page map and the dictionaries: what every query needs comes
//! with one request. The file is an ordinary one in all other respects.

use crate::convert::{ConvertOptions, ConvertReport, through_of};
use crate::copy::{self, Input, PUBLISH_EVERY};
use crate::db::Through;
use crate::disk_space::{self, at_most};
use crate::error::{Error, Result, url_in};
use crate::form;
use crate::free_pages::free_pages;
use crate::lock::unless_cancelled;
use crate::progress::{Progress, Silent};
use crate::source::{Pages, Source};
use crate::target::{self, COMPANIONS, Target, beside, is_no_companion};
use crate::temp::{Temp, clear_leftovers};
use crate::trees::{Owners, Walk};
use densite_disk::SyncKind;
use densite_sqlite::Api;
use densite_sqlite_format::Header;
use densite_store::{Options, Tuning};
use densite_vfs::shown_url;
use std::path::Path;
use std::time::Instant;

/// The order in which pages are stored.
struct Order {
    /// Leaves and other pages.
    first: Vec<u32>,
    /// What every query needs; the first page is the last one.
    last: Vec<u32>,
}

/// Writes a copy of the database `src`, compressed or plain, to `dst`, a file or a URL of object
/// storage. It needs few requests when it is read from there. A database at `dst` is replaced
/// atomically.
///
/// # Errors
/// See [`Error`]. After any error `src` and `dst` are unchanged.
pub fn publish(
    api: Api,
    src: &Path,
    dst: &Path,
    options: &ConvertOptions,
    progress: &mut dyn Progress,
) -> Result<ConvertReport> {
    let started = Instant::now();
    let (target, through) = checked(api, src, dst, options)?;
    let url = url_in(dst);
    // What is uploaded is first written to a temporary file.
    let local = match url {
        Some(_) => std::env::temp_dir().join("densite-publish"),
        None => dst.to_path_buf(),
    };
    match url {
        // Others publish from there, too.
        Some(_) => clear_leftovers(&local, &mut Silent)?,
        None => clear_leftovers(&local, progress)?,
    }
    disk_space::require(&local, at_most(target.len))?;
    let mut temp = Temp::create(&local, &target, false)?;
    let mut source = unless_cancelled(&target, options.wait, progress, |wait| {
        Source::shared(api, through, &target, wait)
    })?;
    let header = source.header();
    let held = match through == Through::Densite && source.state().is_file_alone() {
        true => Some(copy::held(api, &target)?),
        false => None,
    };
    let free = free_pages(api, &mut source, &target.given, progress)?;
    if let Some(conflict) = free.conflict(&target.given) {
        return Err(conflict);
    }
    let zero = free.leaves;
    let roots = source.roots();
    let free_pages_zeroed = zero.len();
    let mut input = Input {
        pages: &mut source,
        header,
        zero,
        held,
        without_freelist: false,
        scrub: true,
        path: &target.given,
    };
    let order = order(&mut input, &roots)?;
    write(&mut input, &order, &temp, options, progress)?;
    copy::prove_compressed(&mut input, &temp, &options.store, progress)?;
    source.confirm()?;
    if progress.cancelled() {
        return Err(Error::Interrupted { path: target.given });
    }
    let (destination_bytes, _) = temp.sizes()?;
    let pages = source.len() / u64::from(header.page_size);
    match url {
        Some(url) => upload(&temp, url, destination_bytes, progress)?,
        None => temp.rename_over(dst)?,
    }
    Ok(ConvertReport {
        source: target.given.clone(),
        destination: url.map_or_else(|| dst.to_path_buf(), |url| shown_url(url).into()),
        in_place: false,
        page_size: header.page_size,
        pages,
        free_pages_zeroed,
        free_pages_in_use: 0,
        source_bytes: target.len_now(),
        destination_bytes,
        elapsed: started.elapsed(),
    })
}

/// Checks that `src` can be published to `dst`, as far as this shows before the work begins. It reads
/// the beginning of `src`, and of a file at `dst`.
///
/// # Errors
/// As [`publish`].
pub fn can_publish(api: Api, src: &Path, dst: &Path, options: &ConvertOptions) -> Result<()> {
    checked(api, src, dst, options).map(drop)
}

/// The source, and how it is read.
fn checked(
    api: Api,
    src: &Path,
    dst: &Path,
    options: &ConvertOptions,
) -> Result<(Target, Through)> {
    if options.archive || options.page_size.is_some() {
        return Err(Error::Setting(
            "publish keeps the page size and makes no archive; use compress for these, and publish its result".into(),
        ));
    }
    let target = target::resolve_to_read(api, src)?;
    let through = through_of(api, &target)?;
    if url_in(dst).is_some() {
        return Ok((target, through));
    }
    if !crate::error::parent_of(dst).exists() {
        // Its directory would be named as missing, a part of what was meant to be a URL.
        if let Some(why) = densite_vfs::mistaken_url(&dst.to_string_lossy()) {
            return Err(Error::Setting(format!("{}: {why}", dst.display())));
        }
    }
    target::must_be_another(&target, dst)?;
    may_replace(api, dst, &target)?;
    Ok((target, through))
}

/// Uploads the finished copy.
fn upload(temp: &Temp, url: &str, len: u64, progress: &mut dyn Progress) -> Result<()> {
    let path = Path::new(&shown_url(url)).to_path_buf();
    progress.phase("uploading", len);
    let mut stopped = false;
    let done = densite_vfs::upload(&temp.open()?, url, &mut |done| {
        progress.done(done);
        stopped = progress.cancelled();
        !stopped
    });
    done.map_err(|message| match stopped {
        true => Error::Interrupted { path },
        false => Error::Remote { path, message },
    })
}

/// Refuses a destination that is no file of its own: only another published database is replaced.
fn may_replace(api: Api, dst: &Path, source: &Target) -> Result<()> {
    is_no_companion(dst)?;
    let Ok(meta) = std::fs::symlink_metadata(dst) else {
        return Ok(());
    };
    let exists = |path: &Path| Error::Exists {
        path: path.to_path_buf(),
    };
    if !meta.is_file() {
        return Err(exists(dst));
    }
    let old = target::resolve(dst)?;
    if source.remote.is_none() && old.inode == source.inode {
        return Err(exists(dst));
    }
    // A program has this database open: it is not a published one.
    if let Some(beside) = COMPANIONS
        .iter()
        .map(|suffix| beside(dst, suffix))
        .find(|path| path.exists())
    {
        return Err(exists(&beside));
    }
    form::form(api, &old).map(drop).map_err(|e| match e {
        Error::NotADatabase { path, .. }
        | Error::OtherFormat { path, .. }
        | Error::Damaged { path, .. } => Error::Exists { path },
        other => other,
    })
}

/// The order of the pages. It is a matter of speed only: damaged trees make it worse, not wrong.
fn order(input: &mut Input<'_>, roots: &[u32]) -> Result<Order> {
    let header = input.header;
    let count = u32::try_from(page_count(input.pages.len(), &header)).unwrap_or(u32::MAX);
    let mut owners = Owners::new(count);
    let mut walk = Walk::new(&mut *input.pages, &header);
    let (mut trees, mut last, mut interior) = (Vec::new(), Vec::new(), Vec::new());
    for root in roots {
        let tree = walk.in_order(*root, 1, &mut owners)?;
        // The schema's own tree begins at page 1.
        match *root {
            1 => last.extend(tree.leaves),
            _ => trees.push(tree.leaves),
        }
        interior.extend(tree.interior);
    }
    let without_tree = |page: &u32| owners.of(*page) == 0 && !input.zero.contains(*page);
    trees.push(input.held_pages(count).filter(without_tree).collect());
    trees.sort_by_key(Vec::len);
    let mut first = trees.concat();
    // The pages near the roots last: they are needed most.
    interior.sort_by_key(|(level, _)| std::cmp::Reverse(*level));
    let mut ordered: Vec<u32> = interior.into_iter().map(|(_, page)| page).collect();
    ordered.append(&mut last);
    ordered.retain(|page| *page != 1);
    ordered.push(1);
    first.retain(|page| *page != 1);
    Ok(Order {
        first,
        last: ordered,
    })
}

fn page_count(len: u64, header: &Header) -> u64 {
    len.div_ceil(u64::from(header.page_size))
}

/// Settings with which every frame is appended. Space becomes free while the file is written, where
/// the page map was replaced. Pages there would be far from their neighbours, and a scan would take
/// more requests. Without a slot, no space is used again.
fn in_order(options: &Options) -> Options {
    let tuning = Tuning {
        slot_every_bytes: u64::MAX,
        self_sync_every_bytes: u64::MAX,
        ..options.tuning
    };
    Options {
        tuning,
        ..options.clone()
    }
}

/// Writes the pages in this order into an empty file and makes it durable.
fn write(
    input: &mut Input<'_>,
    order: &Order,
    temp: &Temp,
    options: &ConvertOptions,
    progress: &mut dyn Progress,
) -> Result<()> {
    let failed = |e| Error::from_store(temp.path(), "write", e);
    let mut store = copy::open_store(temp, in_order(&options.store), "publish")?;
    let samples = input.samples(progress)?;
    store.learn(&samples, input.pages.len()).map_err(failed)?;
    let (len, size) = (input.pages.len(), u64::from(input.header.page_size));
    let mut buf = vec![0; input.header.page_size as usize];
    let (mut unpublished, mut done) = (0, 0);
    progress.phase("publishing", len);
    for (pages, is_last) in [(&order.first, false), (&order.last, true)] {
        if is_last {
            store.set_len(len).map_err(failed)?;
            store.publish().map_err(failed)?;
        }
        for page in pages {
            if progress.cancelled() {
                return Err(Error::Interrupted {
                    path: input.path.to_path_buf(),
                });
            }
            let offset = u64::from(page - 1) * size;
            let n = usize::try_from(size.min(len.saturating_sub(offset))).unwrap_or(0);
            let Some(part) = buf.get_mut(..n) else {
                continue;
            };
            input.read(part, offset)?;
            store.write_at(part, offset).map_err(failed)?;
            unpublished += n as u64;
            done += n as u64;
            progress.done(done);
            if unpublished >= PUBLISH_EVERY && !is_last {
                store.publish().map_err(failed)?;
                unpublished = 0;
            }
        }
    }
    store.publish_gathered().map_err(failed)?;
    store.sync(SyncKind::Full).map_err(failed)?;
    store.close_clean().map_err(failed)
}

//! Conversion, vacuum, check and info.

use crate::edge::{give, optional_path, path};
use crate::failure::{Failure, Result, value_or};
use crate::host;
use densite_tools::{Api, ConvertOptions, Progress, StoreOptions, VacuumOptions, json};
use serde_json::Value;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::time::Duration;

/// `densite_options`. A later version appends fields; `size` is the size of the caller's structure.
#[repr(C)]
pub struct Options {
    size: u32,
    level: i32,
    threads: i32,
    page_size: u32,
    archive: i32,
    known_program: i32,
    wait_ms: i64,
}

/// `densite_progress`: gets the progress of the work; a nonzero result stops it.
type Told = unsafe extern "C" fn(*mut c_void, *const c_char, u64, u64, *const c_char) -> c_int;

/// Calls the caller's function.
struct Caller {
    told: Option<Told>,
    context: *mut c_void,
    phase: CString,
    total: u64,
    stopped: bool,
}

impl Caller {
    fn tell(&mut self, done: u64, message: Option<&str>) {
        let Some(told) = self.told.filter(|_| !self.stopped) else {
            return;
        };
        let message =
            message.map(|m| CString::new(m.replace('\0', "\u{fffd}")).unwrap_or_default());
        let text = message.as_ref().map_or(std::ptr::null(), |m| m.as_ptr());
        // SAFETY: the caller's function with the caller's context, and terminated strings or null, alive during the call.
        self.stopped =
            unsafe { told(self.context, self.phase.as_ptr(), done, self.total, text) } != 0;
    }
}

impl Progress for Caller {
    fn phase(&mut self, name: &'static str, total: u64) {
        self.phase = CString::new(name).unwrap_or_default();
        self.total = total;
        self.tell(0, None);
    }

    fn done(&mut self, done: u64) {
        self.tell(done, None);
    }

    fn message(&mut self, text: &str) {
        self.tell(0, Some(text));
    }

    fn cancelled(&mut self) -> bool {
        self.stopped
    }
}

/// `densite_options_init`: sets the defaults.
///
/// # Safety
/// `options` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_options_init(options: *mut Options) {
    let store = StoreOptions::default();
    if !options.is_null() {
        // SAFETY: the caller guarantees that it is valid.
        unsafe {
            options.write(Options {
                size: u32::try_from(size_of::<Options>()).unwrap_or(0),
                level: store.level,
                threads: -1,
                page_size: 0,
                archive: 0,
                known_program: 0,
                wait_ms: -1,
            });
        }
    }
}

/// The settings of a call; null means the defaults.
///
/// # Safety
/// `options` is null or was set by [`densite_options_init`].
unsafe fn settings(options: *const Options) -> Result<(ConvertOptions, VacuumOptions)> {
    let mut convert = ConvertOptions::default();
    let mut vacuum = VacuumOptions::default();
    // SAFETY: the caller guarantees it.
    let Some(given) = (unsafe { options.as_ref() }) else {
        return Ok((convert, vacuum));
    };
    if usize::try_from(given.size).ok() != Some(size_of::<Options>()) {
        return Err(Failure::misuse(
            "the options were not made by densite_options_init of this version",
        ));
    }
    if !(-7..=22).contains(&given.level) {
        return Err(Failure::misuse(format!(
            "level {} is not within -7 to 22",
            given.level
        )));
    }
    let mut store = StoreOptions {
        level: given.level,
        ..StoreOptions::default()
    };
    if let Ok(threads) = usize::try_from(given.threads) {
        if threads > THREADS_MAX {
            return Err(Failure::misuse(format!(
                "{threads} threads are more than {THREADS_MAX}"
            )));
        }
        store.threads = threads;
    }
    convert.store = store.clone();
    convert.archive = given.archive != 0;
    convert.known_program = given.known_program != 0;
    convert.page_size = (given.page_size != 0).then_some(given.page_size);
    vacuum.store = store;
    if let Ok(ms) = u64::try_from(given.wait_ms) {
        convert.wait = Duration::from_millis(ms);
        vacuum.wait = Duration::from_millis(ms);
    }
    Ok((convert, vacuum))
}

/// The greatest number of threads; a greater one is surely a mistake.
const THREADS_MAX: usize = 256;

/// Runs a verb. Stores its result or its failure in `out` as JSON.
///
/// # Safety
/// `told` is null or a function that can be called with `context` during the call. `out` is null or
/// valid for writing a pointer.
unsafe fn run(
    host: i64,
    told: Option<Told>,
    context: *mut c_void,
    out: *mut *mut c_char,
    verb: impl FnOnce(Api, &mut Caller) -> Result<Value>,
) -> c_int {
    let done = value_or(
        // SAFETY: the caller guarantees `out`.
        |failure| unsafe { give(out, &failure.json()) },
        || {
            let mut caller = Caller {
                told,
                context,
                phase: CString::default(),
                total: 0,
                stopped: false,
            };
            let object = verb(host::api(host)?, &mut caller)?;
            // SAFETY: the caller guarantees `out`.
            unsafe { give(out, &object.to_string()) };
            Ok(())
        },
    );
    done.err().unwrap_or(0)
}

/// A conversion of the crate `densite-tools`.
type Convert = fn(
    Api,
    &Path,
    Option<&Path>,
    &ConvertOptions,
    &mut dyn Progress,
) -> densite_tools::Result<densite_tools::ConvertReport>;

/// The files of a conversion and its settings.
struct Conversion {
    verb: &'static str,
    convert: Convert,
    host: i64,
    src: *const c_char,
    dst: *const c_char,
    options: *const Options,
}

impl Conversion {
    /// Runs the conversion.
    ///
    /// # Safety
    /// As [`densite_compress`].
    unsafe fn run(self, told: Option<Told>, context: *mut c_void, out: *mut *mut c_char) -> c_int {
        // SAFETY: the caller's strings, function and pointers.
        unsafe {
            run(self.host, told, context, out, |api, caller| {
                let (options, _) = settings(self.options)?;
                let (src, dst) = (path("src", self.src)?, optional_path(self.dst));
                let report = (self.convert)(api, src, dst, &options, caller)?;
                Ok(json::converted(self.verb, &report))
            })
        }
    }
}

/// `densite_compress`
///
/// # Safety
/// The contract of `densite.h`: terminated strings, or null where allowed, and valid pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_compress(
    host: i64,
    src: *const c_char,
    dst: *const c_char,
    options: *const Options,
    told: Option<Told>,
    context: *mut c_void,
    out: *mut *mut c_char,
) -> c_int {
    let conversion = Conversion {
        verb: "compress",
        convert: densite_tools::compress,
        host,
        src,
        dst,
        options,
    };
    // SAFETY: the caller guarantees it.
    unsafe { conversion.run(told, context, out) }
}

/// `densite_decompress`
///
/// # Safety
/// As [`densite_compress`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_decompress(
    host: i64,
    src: *const c_char,
    dst: *const c_char,
    options: *const Options,
    told: Option<Told>,
    context: *mut c_void,
    out: *mut *mut c_char,
) -> c_int {
    let conversion = Conversion {
        verb: "decompress",
        convert: densite_tools::decompress,
        host,
        src,
        dst,
        options,
    };
    // SAFETY: the caller guarantees it.
    unsafe { conversion.run(told, context, out) }
}

/// `densite_publish`
///
/// # Safety
/// As [`densite_compress`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_publish(
    host: i64,
    src: *const c_char,
    dst: *const c_char,
    options: *const Options,
    told: Option<Told>,
    context: *mut c_void,
    out: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's strings, function and pointers.
    unsafe {
        run(host, told, context, out, |api, caller| {
            let (options, _) = settings(options)?;
            let (src, dst) = (path("src", src)?, path("dst", dst)?);
            let report = densite_tools::publish(api, src, dst, &options, caller)?;
            Ok(json::converted("publish", &report))
        })
    }
}

/// `densite_vacuum`
///
/// # Safety
/// As [`densite_compress`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_vacuum(
    host: i64,
    db: *const c_char,
    options: *const Options,
    told: Option<Told>,
    context: *mut c_void,
    out: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's strings, function and pointers.
    unsafe {
        run(host, told, context, out, |api, caller| {
            let (_, options) = settings(options)?;
            vacuum(api, path("db", db)?, &options, caller)
        })
    }
}

fn vacuum(api: Api, path: &Path, options: &VacuumOptions, caller: &mut Caller) -> Result<Value> {
    if path.is_dir() {
        return Err(densite_tools::Error::Unsupported(format!(
            "{}: directories of Chroma are vacuumed by the command, densite vacuum",
            path.display()
        ))
        .into());
    }
    Ok(json::vacuumed(&densite_tools::vacuum(
        api, path, options, caller,
    )?))
}

/// `densite_check`: damage is no failure; then `ok` is false in the result.
///
/// # Safety
/// As [`densite_compress`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_check(
    host: i64,
    db: *const c_char,
    told: Option<Told>,
    context: *mut c_void,
    out: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's strings, function and pointers.
    unsafe {
        run(host, told, context, out, |api, caller| {
            let checked = densite_tools::check(api, path("db", db)?, caller)?;
            Ok(json::checked(&checked))
        })
    }
}

/// `densite_info`
///
/// # Safety
/// As [`densite_compress`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn densite_info(
    host: i64,
    db: *const c_char,
    out: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's strings and pointers.
    unsafe {
        run(host, None, std::ptr::null_mut(), out, |api, _| {
            Ok(json::info(&densite_tools::info(api, path("db", db)?)?))
        })
    }
}

//! PRAGMAs of the store: `densite_level`, `densite_threads`, `densite_decoded_cache`, `densite_dead_limit`, `densite_maintain`.

use crate::main_file::{MainFile, State};
use crate::maintain::dead_limit;
use crate::names::unknown_pragma;
use crate::settings::{cache_mib, level, threads};
use densite_sqlite::{Code, Error};
use std::ffi::{CStr, c_char};

impl MainFile {
    /// SQLITE_FCNTL_PRAGMA: a place for the answer's text, the name, the value or null.
    /// [`Code::NOTFOUND`] for a pragma that is not ours, or not on this file.
    ///
    /// # Safety
    /// `arguments` are three pointers, of which the last two are null or terminated text.
    pub(crate) unsafe fn pragma(&mut self, arguments: *mut *mut c_char) -> Code {
        // SAFETY: as the caller vouches; text outlives the call.
        let text = |i: usize| unsafe {
            let ptr = *arguments.add(i);
            (!ptr.is_null()).then(|| CStr::from_ptr(ptr).to_string_lossy().into_owned())
        };
        let Some(name) = text(1) else {
            return Code::NOTFOUND;
        };
        let name = name.to_ascii_lowercase();
        if name == "wal_checkpoint" {
            self.asked_for_checkpoint = true;
        }
        if !name.starts_with("densite_") {
            return Code::NOTFOUND;
        }
        let (code, answer) = if let Some(message) = self.refusal() {
            (Code::CANTOPEN, message)
        } else if let Some(message) = unknown_pragma(&name) {
            (Code::ERROR, message)
        } else if matches!(self.state, State::Plain) {
            return Code::NOTFOUND;
        } else {
            match self.setting(&name, text(2)) {
                Ok(value) => (Code::OK, value),
                Err(wrong) => (wrong.code, wrong.message),
            }
        };
        // SAFETY: the first place is for the answer, which SQLite frees.
        unsafe { *arguments = self.api.string(&answer) };
        code
    }

    /// Sets a setting if there is a value, and answers what it is now.
    fn setting(&mut self, name: &str, value: Option<String>) -> Result<String, Error> {
        if name == "densite_maintain" {
            return self.maintain_now().map(|bytes| bytes.to_string());
        }
        if let Some(value) = value.as_deref() {
            self.set(name, value)
                .map_err(|message| Error::new(Code::ERROR, message))?;
        }
        let options = match &self.state {
            State::Store(handle) => handle.options(),
            _ => &self.settings.options,
        };
        Ok(match name {
            "densite_dead_limit" => self.maintenance.dead_limit.to_string(),
            "densite_level" => options.level.to_string(),
            "densite_threads" => options.threads.to_string(),
            _ => (options.decoded_cache_bytes >> 20).to_string(),
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "densite_dead_limit" => self.maintenance.dead_limit = dead_limit(value)?,
            "densite_level" => self.set_level_text(value)?,
            "densite_threads" => {
                let n = threads(value)?;
                self.settings.options.threads = n;
                if let State::Store(handle) = &mut self.state {
                    handle.set_threads(n);
                }
            }
            _ => {
                let bytes = cache_mib(value)? << 20;
                self.settings.options.decoded_cache_bytes = bytes;
                if let State::Store(handle) = &mut self.state {
                    handle.set_decoded_cache(bytes);
                }
            }
        }
        Ok(())
    }

    fn set_level_text(&mut self, value: &str) -> Result<(), String> {
        let level = level(value)?;
        self.settings.options.level = level;
        match &mut self.state {
            State::Store(handle) => handle.set_level(level).map_err(|error| error.to_string()),
            _ => Ok(()),
        }
    }
}

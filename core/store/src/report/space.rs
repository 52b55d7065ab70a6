//! How much of the file is live, dead and free, from the accounting alone.

use crate::error::Result;
use crate::format::{LOCK_UNIT, UNIT_LEN};
use crate::open_file::OpenFile;
use crate::writer::{self, reserve_behind};

/// Where the bytes of the file are, at the newest commit. In bytes; live, dead, free and reserve
/// add up to `file_bytes`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpaceFigures {
    /// Length of the file.
    pub file_bytes: u64,
    /// What the newest commit reaches, including the preamble (16 KiB) and the unit at 1 GiB that
    /// stays empty.
    pub live_bytes: u64,
    /// Dead bytes in units of 64 KiB that are partly live. Emptying those units makes free units of
    /// them.
    pub dead_bytes: u64,
    /// Units without live bytes: they are reused before the file grows, or cut off.
    pub free_bytes: u64,
    /// The part of `free_bytes` that can be written only after the next durable slot.
    pub waiting_bytes: u64,
    /// The reserve after the end, with which a full disk still takes a small commit.
    pub reserve_bytes: u64,
}

impl SpaceFigures {
    /// Dead and free bytes for each thousand bytes of the file, without the reserve.
    pub fn idle_permille(&self) -> u64 {
        let idle = self.dead_bytes + self.free_bytes;
        (idle * 1000)
            .checked_div(self.file_bytes - self.reserve_bytes)
            .unwrap_or(0)
    }

    /// Whether more than `limit` per cent of the file, without the reserve, is dead or free. Then
    /// [`Handle::reclaim_step`](crate::Handle::reclaim_step) has work to do.
    pub fn over(&self, limit: u8) -> bool {
        let idle = u128::from(self.dead_bytes + self.free_bytes);
        idle * 100 > u128::from(self.file_bytes - self.reserve_bytes) * u128::from(limit)
    }

    /// Whether much more than the reserve is after the end: bytes that a killed writer appended and
    /// did not publish.
    pub fn has_leftovers(&self) -> bool {
        let end = self.file_bytes - self.reserve_bytes;
        self.reserve_bytes >= reserve_behind(end) + UNIT_LEN
    }
}

/// Where the bytes of the file are. Does not read the page map: it loads the parts of the space
/// table that a writer loads, and adds them up.
///
/// # Errors
/// I/O, damage.
pub(crate) fn space(open: &mut OpenFile) -> Result<SpaceFigures> {
    open.check_poison()?;
    let file_bytes = open.file().len()?;
    let figures = SpaceFigures {
        file_bytes,
        ..SpaceFigures::default()
    };
    if !open.attach()? {
        return Ok(figures);
    }
    let shared = open.shared()?;
    let file = open.file();
    shared.while_it_moves(file, || {
        let mut writer = shared.writer.lock();
        let state = shared.state.read();
        writer.account(&shared.sources(file), &state)?;
        let Some(space) = writer.accounting.space() else {
            return Ok(figures);
        };
        let mut figures = figures;
        let end = state.tail_off().min(file_bytes);
        let locked = end >= (LOCK_UNIT + 1) * UNIT_LEN && space.live(LOCK_UNIT) == 0;
        let locked = if locked { UNIT_LEN } else { 0 };
        figures.reserve_bytes = file_bytes - end;
        figures.live_bytes = (space.live_bytes() + locked).min(end);
        let idle = end - figures.live_bytes;
        let units = space.free_below(end / UNIT_LEN);
        figures.free_bytes = (units * UNIT_LEN - locked).min(idle);
        let waiting = space.waiting_units(state.current_extent()) * UNIT_LEN;
        figures.waiting_bytes = waiting.min(figures.free_bytes);
        figures.dead_bytes = idle - figures.free_bytes;
        Ok(figures)
    })
}

/// Live bytes of each unit of the file in order, and the bytes of a unit. There is nothing after
/// the last one.
///
/// # Errors
/// I/O, damage.
pub(crate) fn live_by_unit(open: &mut OpenFile) -> Result<(Vec<u32>, u64)> {
    open.check_poison()?;
    if !open.attach()? {
        return Ok((Vec::new(), UNIT_LEN));
    }
    let shared = open.shared()?;
    let file = open.file();
    let space = shared.while_it_moves(file, || {
        let state = shared.state.read().clone();
        let mut space = writer::load(&shared.sources(file), &state)?;
        space.load_all(shared.table_source(file), state.tip().commit)?;
        Ok(space)
    })?;
    // The table can be longer than the file, whose end was cut off.
    let units = space.units().min(file.len()?.div_ceil(UNIT_LEN));
    let live = (0..units).map(|unit| space.live(unit)).collect();
    Ok((live, UNIT_LEN))
}

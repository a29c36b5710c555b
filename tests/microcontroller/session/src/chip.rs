//! NOR flash in memory, which loses power where an order says so.

use core::fmt;

use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind, ReadNorFlash};
use orco_core::random::Random;

use crate::board::Board;
use crate::exchange::{Cut, WriteFate};

/// Bytes that are written at a time.
pub const WORD: usize = 4;
/// Bytes that are erased at a time, those of a sector of common serial flash.
pub const PAGE: usize = 4096;

/// Flash of words and pages: bits can only be cleared, but for a whole page at a time.
pub struct Chip<'a> {
    bytes: &'a mut [u8],
    board: &'a dyn Board,
    cut: Option<Cut>,
    off: bool,
    /// Words written and pages erased.
    pub changes: usize,
    /// Bytes written.
    pub written: usize,
    /// Pages erased.
    pub erased: usize,
}

impl fmt::Debug for Chip<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, cut, changes, .. } = self;
        write!(f, "Chip of {} bytes after {changes} changes, {cut:?}", bytes.len())
    }
}

/// The power is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Off;

impl NorFlashError for Off {
    fn kind(&self) -> NorFlashErrorKind {
        NorFlashErrorKind::Other
    }
}

impl<'a> Chip<'a> {
    /// Flash whose content is `bytes`, on a board that is told when the power goes.
    pub fn new(bytes: &'a mut [u8], board: &'a dyn Board, cut: Option<Cut>) -> Self {
        Self { bytes, board, cut, off: false, changes: 0, written: 0, erased: 0 }
    }

    /// Counts a change; says what becomes of it if the power goes now.
    fn change(&mut self) -> Result<Option<WriteFate>, Off> {
        if self.off {
            return Err(Off);
        }
        let fate = self.cut.filter(|cut| cut.after == self.changes).map(|cut| cut.fate);
        self.changes += 1;
        self.off = fate.is_some();
        Ok(fate)
    }

    fn go_on(&self) -> Result<(), Off> {
        if self.off {
            self.board.off();
            return Err(Off);
        }
        Ok(())
    }

    fn some_bits(&self) -> Random {
        Random::new(self.changes as u64, "bits")
    }
}

impl ErrorType for Chip<'_> {
    type Error = Off;
}

impl ReadNorFlash for Chip<'_> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Off> {
        if self.off {
            return Err(Off);
        }
        bytes.copy_from_slice(&self.bytes[offset as usize..][..bytes.len()]);
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.bytes.len()
    }
}

impl NorFlash for Chip<'_> {
    const WRITE_SIZE: usize = WORD;
    const ERASE_SIZE: usize = PAGE;

    fn erase(&mut self, from: u32, to: u32) -> Result<(), Off> {
        assert!((from as usize).is_multiple_of(PAGE) && (to as usize).is_multiple_of(PAGE), "pages are erased whole");
        for start in (from as usize..to as usize).step_by(PAGE) {
            let fate = self.change()?;
            let mut bits = self.some_bits();
            let page = &mut self.bytes[start..start + PAGE];
            match fate {
                Some(WriteFate::Before) => {}
                Some(WriteFate::Amid) => page.iter_mut().for_each(|byte| *byte |= bits.below(256) as u8),
                Some(WriteFate::After) | None => page.fill(0xFF),
            }
            self.erased += 1;
            self.go_on()?;
        }
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Off> {
        let start = offset as usize;
        assert!(start.is_multiple_of(WORD) && bytes.len().is_multiple_of(WORD), "words are written whole");
        for (to, from) in (start..).step_by(WORD).zip(bytes.chunks_exact(WORD)) {
            let fate = self.change()?;
            let mut bits = self.some_bits();
            let word = &mut self.bytes[to..to + WORD];
            assert!(word.iter().zip(from).all(|(old, new)| old & new == *new), "a bit can only be cleared");
            match fate {
                Some(WriteFate::Before) => {}
                Some(WriteFate::Amid) => {
                    word.iter_mut().zip(from).for_each(|(to, from)| *to &= from | bits.below(256) as u8);
                }
                Some(WriteFate::After) | None => word.copy_from_slice(from),
            }
            self.written += WORD;
            self.go_on()?;
        }
        Ok(())
    }
}

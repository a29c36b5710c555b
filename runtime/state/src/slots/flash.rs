//! Two slots on raw NOR flash, for devices without a file system.
//!
//! A range of the flash is cut into two halves, one per slot. Within a slot the bytes lie as a queue of pieces, one per
//! page, in the format of the crate `sequential-storage`, which looks after words, pages and pieces that were cut off.
//! A slot's pages wear evenly, one erasure for every second save.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::ops::Range;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use embedded_storage::nor_flash::{ErrorType, NorFlash, NorFlashError, NorFlashErrorKind};
use embedded_storage_async::nor_flash as async_nor;
use sequential_storage::Error;
use sequential_storage::cache::Cache;
use sequential_storage::queue::{QueueConfig, QueueStorage};

use super::medium::{Medium, Slot};

/// The slots of a range of flash.
#[derive(Debug)]
pub struct Flash<F> {
    flash: F,
    halves: [Range<u32>; 2],
}

/// Why the flash refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlashError<E> {
    /// What the driver says.
    Driver(E),
    /// The state is larger than half of the range.
    Full,
    /// The range is not made of an even number of pages, or they are too small.
    Range,
}

impl<E: fmt::Debug> fmt::Display for FlashError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(error) => write!(f, "the flash failed: {error:?}"),
            Self::Full => write!(f, "the state does not fit into half of its range of flash"),
            Self::Range => write!(f, "the range of flash is not an even number of pages of usable size"),
        }
    }
}

impl<E: fmt::Debug> core::error::Error for FlashError<E> {}

impl<F: NorFlash> Flash<F> {
    /// Slots in `range` of the flash, whose ends lie between pages.
    ///
    /// # Errors
    /// [`FlashError::Range`] if the range has no two equal halves of whole pages.
    pub fn new(flash: F, range: Range<u32>) -> Result<Self, FlashError<F::Error>> {
        let middle = range.start + range.end.saturating_sub(range.start) / 2;
        let halves = [range.start..middle, middle..range.end];
        let usable = |half: &Range<u32>| QueueConfig::<AsyncAdapter<'_, F>>::try_new(half.clone()).is_ok();
        let fits = range.end as usize <= flash.capacity() && Self::PIECE >= 16;
        if fits && halves.iter().all(usable) { Ok(Self { flash, halves }) } else { Err(FlashError::Range) }
    }

    /// Gives the flash back.
    pub fn free(self) -> F {
        self.flash
    }

    /// Bytes of a page that are not the state's: two marks, and the head of a piece, all rounded up to words.
    const OVERHEAD: usize = 2 * Self::WORD + 8usize.next_multiple_of(Self::WORD);
    const WORD: usize = if F::WRITE_SIZE > F::READ_SIZE { F::WRITE_SIZE } else { F::READ_SIZE };
    /// Bytes of the state per page.
    const PIECE: usize = {
        let room = F::ERASE_SIZE.saturating_sub(Self::OVERHEAD);
        let largest = u16::MAX as usize;
        let piece = if room < largest { room } else { largest };
        piece / Self::WORD * Self::WORD
    };

    fn half(&self, slot: Slot) -> Range<u32> {
        self.halves[slot as usize].clone()
    }

    /// Erases the pages of a slot that hold anything.
    fn erase(&mut self, slot: Slot) -> Result<(), F::Error> {
        for start in self.half(slot).step_by(F::ERASE_SIZE) {
            if self.holds_anything(start)? {
                self.flash.erase(start, start + F::ERASE_SIZE as u32)?;
            }
        }
        Ok(())
    }

    fn is_blank(&mut self, slot: Slot) -> Result<bool, F::Error> {
        for start in self.half(slot).step_by(F::ERASE_SIZE) {
            if self.holds_anything(start)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a page is not as it was erased.
    fn holds_anything(&mut self, start: u32) -> Result<bool, F::Error> {
        let mut page = vec![0; F::ERASE_SIZE];
        self.flash.read(start, &mut page)?;
        Ok(page.iter().any(|byte| *byte != 0xFF))
    }

    /// Gathers the pieces of a slot as far as they can be read.
    fn gather(&mut self, slot: Slot) -> Result<Vec<u8>, FlashError<F::Error>> {
        let half = self.half(slot);
        let config = QueueConfig::try_new(half).map_err(|_| FlashError::Range)?;
        let flash = AsyncAdapter { flash: &mut self.flash, writable: false };
        let mut queue = QueueStorage::new(flash, config, Cache::new_uncached());
        let mut bytes = Vec::new();
        let mut piece = vec![0; Self::PIECE.next_multiple_of(32)];
        let gathered = block_on_ready(async {
            let mut pieces = queue.iter().await?;
            while let Some(piece) = pieces.next(&mut piece).await? {
                bytes.extend_from_slice(&piece);
            }
            Ok(())
        });
        match gathered {
            Err(Error::Storage { value: FlashRefusal::Driver(error), .. }) => Err(FlashError::Driver(error)),
            // Also after damage, some of which the library would repair by erasing: what is left of the slot will not
            // match its checksum.
            _ => Ok(bytes),
        }
    }
}

impl<F: NorFlash> Medium for Flash<F> {
    type Error = FlashError<F::Error>;

    fn read(&mut self, slot: Slot) -> Result<Option<Vec<u8>>, Self::Error> {
        if self.is_blank(slot).map_err(FlashError::Driver)? {
            return Ok(None);
        }
        self.gather(slot).map(Some)
    }

    fn write(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), Self::Error> {
        let half = self.half(slot);
        let pages = half.len() / F::ERASE_SIZE;
        if bytes.len().div_ceil(Self::PIECE) > pages {
            return Err(FlashError::Full);
        }
        self.erase(slot).map_err(FlashError::Driver)?;
        let config = QueueConfig::try_new(half).map_err(|_| FlashError::Range)?;
        let flash = AsyncAdapter { flash: &mut self.flash, writable: true };
        let mut queue = QueueStorage::new(flash, config, Cache::new_uncached());
        let written = block_on_ready(async {
            for piece in bytes.chunks(Self::PIECE) {
                queue.push(piece, false).await?;
            }
            Ok(())
        });
        written.map_err(|error| match error {
            Error::Storage { value: FlashRefusal::Driver(error), .. } => FlashError::Driver(error),
            _ => FlashError::Full,
        })
    }

    /// There is no third slot: the damaged slot is written over next, and the sound one is not touched.
    fn set_aside(&mut self, _: Slot) -> Result<(), Self::Error> {
        Ok(())
    }

    /// There is nothing besides the slots.
    fn clear(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A blocking flash for an async library: its futures are ready at once. For reading it is not writable: what the
/// library repairs by erasing is for the next save.
struct AsyncAdapter<'a, F> {
    flash: &'a mut F,
    writable: bool,
}

/// Why [`AsyncAdapter`] refused.
#[derive(Debug)]
enum FlashRefusal<E> {
    Driver(E),
    ReadOnly,
}

impl<E: NorFlashError> NorFlashError for FlashRefusal<E> {
    fn kind(&self) -> NorFlashErrorKind {
        match self {
            Self::Driver(error) => error.kind(),
            Self::ReadOnly => NorFlashErrorKind::Other,
        }
    }
}

impl<F: NorFlash> ErrorType for AsyncAdapter<'_, F> {
    type Error = FlashRefusal<F::Error>;
}

impl<F: NorFlash> async_nor::ReadNorFlash for AsyncAdapter<'_, F> {
    const READ_SIZE: usize = F::READ_SIZE;

    async fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        self.flash.read(offset, bytes).map_err(FlashRefusal::Driver)
    }

    fn capacity(&self) -> usize {
        self.flash.capacity()
    }
}

impl<F: NorFlash> async_nor::NorFlash for AsyncAdapter<'_, F> {
    const WRITE_SIZE: usize = F::WRITE_SIZE;
    const ERASE_SIZE: usize = F::ERASE_SIZE;

    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        if !self.writable {
            return Err(FlashRefusal::ReadOnly);
        }
        self.flash.erase(from, to).map_err(FlashRefusal::Driver)
    }

    async fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        if !self.writable {
            return Err(FlashRefusal::ReadOnly);
        }
        self.flash.write(offset, bytes).map_err(FlashRefusal::Driver)
    }
}

/// Runs a future that is ready at once, as all of [`AsyncAdapter`]'s are.
fn block_on_ready<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
    }
}

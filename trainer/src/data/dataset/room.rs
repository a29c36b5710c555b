//! Checks that images fit into memory before any of them is created.

use orco_runtime::memory;
use orco_state::sentence::byte_size;

use super::DataError;

/// Refuses `count` images of `side` pixels, three bytes each, of which `copies` are in memory at once.
///
/// Beside what the machine has left, the process's own limit counts: an allocation is tried, and given back untouched.
pub(super) fn demand_room(count: usize, side: u32, copies: usize) -> Result<(), DataError> {
    let bytes = [3, side as usize, side as usize, copies].into_iter().try_fold(count, usize::checked_mul);
    let free = memory::available();
    let fits = bytes.is_some_and(|bytes| {
        free.is_none_or(|free| bytes as u64 <= free) && Vec::<u8>::new().try_reserve_exact(bytes).is_ok()
    });
    if fits {
        return Ok(());
    }
    let wanted = bytes.map_or_else(|| "more than can be counted".into(), |bytes| byte_size(bytes as u64));
    // Where the machine has enough, a limit of the process is in the way.
    let short = free.filter(|&free| bytes.is_none_or(|bytes| bytes as u64 > free));
    Err(DataError::Room { count, side, wanted, free: short.map_or_else(|| "less".into(), byte_size) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_do_not_fit_are_one_sentence() {
        demand_room(10, 32, 2).unwrap();
        demand_room(0, 1024, 2).unwrap();
        for (count, wanted) in [(400_000_000, "1171875.0 GiB"), (usize::MAX / 2, "than can be counted")] {
            let said = demand_room(count, 1024, 1).unwrap_err().to_string();
            assert!(said.contains(wanted) && said.contains("lower data.image_size"), "{said}");
        }
    }
}

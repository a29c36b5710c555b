//! How memory for pictures is shared, and who waits for whom.

use futures_util::FutureExt;

use super::*;

const MIB: u64 = 1 << 20;

#[test]
fn the_pools_are_the_memory_and_the_least_takes_every_picture() {
    for memory in [MIN_MEMORY, MAX_DEFAULT_MEMORY, MIN_MEMORY + 12_345] {
        let pools = MemoryPools::of(memory);
        assert_eq!(pools.files + pools.small + pools.large, memory);
    }
    let pools = MemoryPools::of(MIN_MEMORY);
    assert!(pools.files >= orco_runtime::image::MAX_FILE);
    // A picture of 64 MiB, and what scaling it takes.
    assert!(pools.large >= orco_runtime::image::MAX_MEMORY + 30 * MIB);
}

#[tokio::test]
async fn a_small_picture_passes_by_large_ones_that_wait_and_all_come_to_their_turn() {
    let admission = Admission::new(64 * MIB);
    let large = || Box::pin(admission.admit(20 * MIB));
    let first = large().now_or_never().unwrap().unwrap();
    let (mut second, mut third) = (large(), large());
    assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
    let small = admission.admit(3 * MIB).now_or_never().unwrap().unwrap();
    assert!(admission.try_admit(20 * MIB).unwrap().is_none() && admission.try_admit(3 * MIB).unwrap().is_some());
    assert_eq!(admission.try_admit(32 * MIB).err().unwrap().status().as_u16(), 413, "so much will never be free");
    drop(first);
    assert!((&mut third).now_or_never().is_none(), "in the order of arrival");
    let held = second.now_or_never().unwrap().unwrap();
    held.shrink_to(18 * MIB);
    assert!((&mut third).now_or_never().is_none(), "some of it is still held");
    held.shrink_to(4 * MIB);
    held.shrink_to(20 * MIB);
    assert!(third.now_or_never().is_some());
    drop((small, held));
    assert!(admission.0.is_idle() && admission.0.large.requests.available_permits() == MAX_LARGE_REQUESTS);
}

#[tokio::test]
async fn whoever_stops_waiting_leaves_nothing_behind() {
    let admission = Admission::new(64 * MIB);
    let held = admission.admit(31 * MIB).now_or_never().unwrap().unwrap();
    for _ in 0..3 * MAX_LARGE_REQUESTS {
        let mut waiting = Box::pin(admission.admit(31 * MIB));
        assert!((&mut waiting).now_or_never().is_none());
    }
    drop(held);
    assert!(admission.admit(31 * MIB).now_or_never().unwrap().is_ok());
    assert!(admission.0.is_idle());
}

#[tokio::test]
async fn what_can_never_be_and_who_is_one_too_many_is_refused_at_once() {
    let admission = Admission::new(64 * MIB);
    let refused = |bytes| match admission.admit(bytes).now_or_never() {
        Some(Err(refusal)) => refusal.status().as_u16(),
        _ => 0,
    };
    assert_eq!(refused(32 * MIB), 413);
    assert_eq!(refused(u64::MAX), 413);
    let _held = admission.admit(31 * MIB).now_or_never().unwrap().unwrap();
    let mut waiting: Vec<_> = (1..MAX_LARGE_REQUESTS).map(|_| Box::pin(admission.admit(31 * MIB))).collect();
    assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
    assert_eq!(refused(31 * MIB), 429);
    assert_eq!(refused(MIB), 0, "small ones go on");
}

#[test]
fn files_take_their_share_and_no_more_and_small_ones_are_free() {
    let admission = Admission::new(64 * MIB);
    let mut first = admission.body();
    assert!(first.check(24 << 20).is_ok() && first.check(26 << 20).is_err());
    for step in 1..=23 {
        first.grow_to(step << 20).unwrap();
    }
    let mut second = admission.body();
    assert_eq!(second.grow_to(3 << 20).unwrap_err().status().as_u16(), 429);
    second.grow_to(UNCOUNTED_BYTES).unwrap();
    let bytes = first.holding(vec![1; 3]);
    let part = bytes.slice(1..2);
    drop(bytes);
    assert!(second.grow_to(3 << 20).is_err(), "a part of it is still there");
    drop(part);
    second.grow_to(3 << 20).unwrap();
    drop(second);
    assert!(admission.0.is_idle());
}

#[test]
fn a_body_that_grows_by_and_by_has_memory_for_all_of_it_and_never_more_than_is_possible() {
    let admission = Admission::new(64 * MIB);
    let (mut permit, mut bytes) = (admission.body(), Vec::new());
    let (step, limit) = (1 << 20, 22 << 20);
    let mut capacities = Vec::new();
    while bytes.len() < limit {
        let wanted = bytes.len() + step;
        permit.grow(&mut bytes, wanted, limit).unwrap();
        bytes.resize(wanted, 0);
        capacities.push(bytes.capacity() >> 20);
        let held = permit.held.as_ref().unwrap().num_permits();
        assert_eq!(held, counted_units(bytes.capacity()));
    }
    capacities.dedup();
    assert_eq!(capacities, [1, 2, 4, 8, 16, 22], "never more than the limit");
    permit.grow(&mut bytes, 23 << 20, usize::MAX).unwrap();
    assert_eq!(bytes.capacity(), permit.max_bytes(), "never more than is possible");
    assert_eq!(permit.grow(&mut bytes, permit.max_bytes() + 1, usize::MAX).unwrap_err().status().as_u16(), 413);
}

#[test]
fn a_file_for_which_there_will_never_be_memory_is_refused_for_good() {
    let admission = Admission::new(64 * MIB);
    let status = |tried: Result<(), Refusal>| tried.map_err(|refusal| refusal.status().as_u16());
    let mut alone = admission.body();
    let most = alone.max_bytes();
    assert_eq!(most, (24 << 20) + UNCOUNTED_BYTES, "three eighths");
    assert_eq!((status(alone.check(most)), status(alone.check(most + 1))), (Ok(()), Err(413)));
    assert_eq!((status(alone.grow_to(most + 1)), status(alone.grow_to(most))), (Err(413), Ok(())));
    assert_eq!(status(admission.body().check(most)), Err(429), "when the other one is gone");
    drop(alone);
    // What a request holds is never free for the rest of it.
    let mut body = admission.body();
    body.grow_to(16 << 20).unwrap();
    let mut beside = admission.body_beside(16 << 20);
    assert_eq!(status(beside.grow_to(9 << 20)), Err(413));
    beside.grow_to(8 << 20).unwrap();
    assert_eq!(admission.body_beside(usize::MAX).max_bytes(), UNCOUNTED_BYTES);
}

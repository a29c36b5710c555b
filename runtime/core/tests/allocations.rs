//! A session of the core allocates nothing: all of its memory is the caller's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::ControlFlow;

use orco_core::align::{self, AlignmentData, AlignmentInput, Sampling};
use orco_core::config::MethodConfig;
use orco_core::exemplar::ExemplarPrecision;
use orco_core::projection::HeadShape;
use orco_core::random::Random;
use orco_core::workers::Serial;
use orco_state::bank::Bank;
use orco_state::head::Head;
use orco_state::session::SessionMemory;
use orco_state::target::{TargetMethod, generate};

/// The system's allocator, counting.
struct CountingAllocator;

thread_local! {
    /// Of this thread alone: the test harness allocates on others.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_session_allocates_nothing() {
    let before = ALLOCATIONS.get();
    drop(vec![1]);
    assert_eq!(ALLOCATIONS.get() - before, 1, "the allocator counts");
    let shape = HeadShape { inputs: 50, hidden: 70, outputs: 20 };
    let mut random = Random::new(1, "allocations");
    let mut head = Head::zeros(shape);
    for values in head.parameters_mut() {
        values.iter_mut().for_each(|value| *value = 0.1 * random.normal());
    }
    let targets = generate(TargetMethod::Orthonormal, 20, 20, 0, 1);
    for precision in [ExemplarPrecision::Int8, ExemplarPrecision::F16] {
        let (mut base, mut learned) = (Bank::new(50, 4, precision), Bank::new(50, 4, precision));
        for class in 0..12 {
            for _ in 0..5 {
                let features: Vec<f32> = (0..200).map(|_| random.normal()).collect();
                if class < 6 { &mut base } else { &mut learned }.push(class, &features);
            }
        }
        for config in [MethodConfig::published(), MethodConfig::paper_text(), MethodConfig::edge()] {
            let config = MethodConfig { epochs: 3, warmup_epochs: 1, ..config };
            let data = AlignmentData {
                shape,
                head: head.as_parameters(),
                targets: &targets,
                base_classes: 6,
                base: base.as_exemplars(),
                learned: learned.as_exemplars(),
            };
            let mut memory = SessionMemory::new(data.workspace_size(12, 0, &config));
            let mut workspace = memory.workspace(&Serial);
            let mut assigned: Vec<u32> = (0..12).collect();
            let mut after = Head::zeros(shape);
            let mut epochs = 0;
            let mut count = |_| {
                epochs += 1;
                ControlFlow::Continue(())
            };

            let before = ALLOCATIONS.get();
            align::assign_new_classes(&data, &mut assigned, 6, &config, &mut workspace).unwrap();
            let sampling = Sampling::seeded(1);
            let input = AlignmentInput { data: &data, assigned: &assigned, config: &config, sampling };
            align::align(&input, &mut workspace, after.as_parameters_mut(), &mut count).unwrap();
            assert_eq!(ALLOCATIONS.get() - before, 0);
            assert_eq!(epochs, 3);
            assert_ne!(after, head);
        }
    }
}

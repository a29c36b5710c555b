//! NEON.

use core::arch::aarch64::{float32x4_t, vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32};

use super::Vector;

pub(super) type Quad = float32x4_t;

// SAFETY, of every function: NEON is part of the architecture; pointers are the caller's promise.
impl Vector for Quad {
    const WIDTH: usize = 4;

    #[inline(always)]
    unsafe fn broadcast(value: f32) -> Self {
        unsafe { vdupq_n_f32(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { vst1q_f32(to, self) }
    }

    #[inline(always)]
    unsafe fn plus_product(self, a: Self, b: Self) -> Self {
        unsafe { vfmaq_f32(self, a, b) }
    }
}

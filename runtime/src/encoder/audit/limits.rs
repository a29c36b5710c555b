//! The most that an engine may be asked for, and why not less. The released backbones stay a factor of two and more
//! below; the largest that must pass are ViT-L/14 and ResNet-152 on images of 448 x 448 pixels.

/// Most multiply-adds for one picture, where other work counts as so many as take as long: 550 thousand million.
/// ViT-L/14 takes 389 thousand million at 448 x 448 pixels, ResNet-152 takes 50.
pub const MAX_WORK: u64 = 1 << 39;
/// Most multiply-adds, counted as in [`MAX_WORK`], for one call of an engine, which computes several small pictures at
/// once.
pub const MAX_WORK_OF_CALL: u64 = 1 << 40;
/// Most of it that depends on no picture, which an engine does while it opens a model: 17 thousand million, enough to
/// convert four thousand million weights.
pub const MAX_FOLDING: u64 = 1 << 34;
/// Most memory for weights and live tensors in one call of an engine, in bytes. ViT-L/14 takes
/// 1.3 GiB at 448 x 448 pixels, 1.1 of them for weights.
pub const MAX_LIVE: u64 = 4 << 30;
/// Most memory for all tensors of one call together, in bytes: what an engine would take that frees none.
pub const MAX_TOTAL: u64 = 32 << 30;
/// Longest chain of nodes. rten follows it by recursion, which has to fit the 2 MiB of a thread's stack.
/// ResNet-152 with quantised layers has some 800.
pub const MAX_DEPTH: u32 = 4_000;

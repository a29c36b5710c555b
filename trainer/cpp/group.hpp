// A group of ranks on c10d, PyTorch's engine of distributed training: what c10d.cpp and nccl.cpp share.
#pragma once

#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace orco {

#ifdef ORCO_NCCL
// NCCL between the current CUDA devices of all ranks.
c10::intrusive_ptr<c10d::Backend> nccl(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout);
#endif

} // namespace orco

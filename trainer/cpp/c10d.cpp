// The few functions of c10d that data-parallel training needs, for src/platform/distributed/c10d.rs.
//
// Every function returns null, or what went wrong as a text that `orco_text_free` frees. Tensors go by pointer to
// at::Tensor, as tch passes them.

#include "group.hpp"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace {

using std::chrono::milliseconds;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// What was thrown, without the trace of C++ calls.
std::string reason() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown kind";
  }
}

// Does a collective; src/platform/failure.rs knows by the first words that another rank is the cause of what it throws.
template <typename Work>
void with_others(Work work) {
  try {
    work();
  } catch (...) {
    throw std::runtime_error("lost the other ranks: " + reason());
  }
}

// Does the work; what it throws becomes a text.
template <typename Work>
char* guarded(Work work) noexcept {
  try {
    work();
    return nullptr;
  } catch (...) {
    return strdup(reason().c_str());
  }
}

struct Group final : torch::CustomClassHolder {
  // Destroyed last: rank 0 may serve it.
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::Backend> gloo;
  // Of tensors on CUDA devices, where this program was built with it.
  c10::intrusive_ptr<c10d::Backend> nccl;
  int rank = 0;
  int size = 1;

  // The backend that works on the tensor where it is, if there is one.
  c10d::Backend* at_place(const at::Tensor& tensor) const {
    if (tensor.is_cpu()) {
      return gloo.get();
    }
    return nccl.get();
  }
};

// Runs a collective over a contiguous tensor in the place of `tensor`: on the device where a backend works there, else
// in host memory.
template <typename Collective>
void in_place(const Group& group, at::Tensor tensor, Collective collective) {
  at::NoGradGuard no_gradient;
  c10d::Backend* backend = group.at_place(tensor);
  at::Tensor there = backend ? tensor.contiguous() : tensor.cpu().contiguous();
  with_others([&] { collective(backend ? *backend : *group.gloo, there); });
  if (!there.is_same(tensor)) {
    tensor.copy_(there);
  }
}

void sum(const Group& group, const at::Tensor& tensor, milliseconds timeout) {
  in_place(group, tensor, [&](c10d::Backend& backend, at::Tensor& there) {
    c10d::AllreduceOptions options;
    options.timeout = timeout;
    std::vector<at::Tensor> tensors{there};
    backend.allreduce(tensors, options)->wait();
  });
}

void broadcast(const Group& group, const at::Tensor& tensor, milliseconds timeout) {
  in_place(group, tensor, [&](c10d::Backend& backend, at::Tensor& there) {
    c10d::BroadcastOptions options;
    options.timeout = timeout;
    std::vector<at::Tensor> tensors{there};
    backend.broadcast(tensors, options)->wait();
  });
}

// The rows of all ranks, one rank's after the other's.
at::Tensor gathered(const Group& group, const at::Tensor& rows, milliseconds timeout) {
  at::NoGradGuard no_gradient;
  c10d::Backend* backend = group.at_place(rows);
  at::Tensor own = backend ? rows.contiguous() : rows.cpu().contiguous();
  std::vector<std::vector<at::Tensor>> parts(1);
  for (int rank = 0; rank < group.size; ++rank) {
    parts[0].push_back(at::empty_like(own));
  }
  c10d::AllgatherOptions options;
  options.timeout = timeout;
  std::vector<at::Tensor> inputs{own};
  with_others([&] { (backend ? *backend : *group.gloo).allgather(parts, inputs, options)->wait(); });
  return at::cat(parts[0], 0).to(rows.device());
}

// The group as a backward pass finds it again.
void keep(AutogradContext* context, const c10::intrusive_ptr<Group>& group, milliseconds timeout) {
  context->saved_data["group"] = c10::IValue::make_capsule(group);
  context->saved_data["timeout"] = static_cast<int64_t>(timeout.count());
}

// Sums a gradient over all ranks.
at::Tensor summed(AutogradContext* context, const at::Tensor& gradient) {
  auto group = c10::static_intrusive_pointer_cast<Group>(context->saved_data["group"].toCapsule());
  at::Tensor total = gradient.contiguous().clone();
  sum(*group, total, milliseconds(context->saved_data["timeout"].toInt()));
  return total;
}

struct Gather : Function<Gather> {
  static at::Tensor forward(
      AutogradContext* context, const at::Tensor& rows, const c10::intrusive_ptr<Group>& group, int64_t timeout) {
    keep(context, group, milliseconds(timeout));
    context->saved_data["first"] = group->rank * rows.size(0);
    context->saved_data["count"] = rows.size(0);
    return gathered(*group, rows, milliseconds(timeout));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    at::Tensor total = summed(context, gradients[0]);
    int64_t first = context->saved_data["first"].toInt(), count = context->saved_data["count"].toInt();
    return {total.narrow(0, first, count), Variable(), Variable()};
  }
};

struct Sum : Function<Sum> {
  static at::Tensor forward(
      AutogradContext* context, const at::Tensor& part, const c10::intrusive_ptr<Group>& group, int64_t timeout) {
    keep(context, group, milliseconds(timeout));
    at::Tensor total = part.contiguous().clone();
    sum(*group, total, milliseconds(timeout));
    return total;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {summed(context, gradients[0]), Variable(), Variable()};
  }
};

} // namespace

struct orco_group {
  c10::intrusive_ptr<Group> group;
};

extern "C" {

// Meets the other ranks at `host`:`port`. `serves` says that this rank keeps the store there, `patience_ms` how long it
// waits for the others, `timeout_ms` how long NCCL waits for one of them, `cuda` whether its tensors are on the current
// CUDA device.
char* orco_group_open(
    const char* host, uint16_t port, bool serves, const char* prefix, int rank, int size, int64_t patience_ms,
    int64_t timeout_ms, bool cuda, orco_group** opened) {
  return guarded([&] {
    c10d::TCPStoreOptions at;
    at.port = port;
    at.isServer = serves;
    at.timeout = milliseconds(patience_ms);
    // Gloo waits for all of them anyway.
    at.waitWorkers = false;
    auto group = c10::make_intrusive<Group>();
    group->rank = rank;
    group->size = size;
    group->store = c10::make_intrusive<c10d::PrefixStore>(prefix, c10::make_intrusive<c10d::TCPStore>(host, at));
    auto options = c10d::ProcessGroupGloo::Options::create(milliseconds(patience_ms));
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
    group->gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>("gloo", group->store), rank, size, options);
#ifdef ORCO_NCCL
    if (cuda) {
      group->nccl = orco::nccl(group->store, rank, size, milliseconds(timeout_ms));
    }
#else
    (void)cuda, (void)timeout_ms;
#endif
    *opened = new orco_group{std::move(group)};
  });
}

// Adds up a tensor over all ranks, in place.
char* orco_group_sum(const orco_group* group, const at::Tensor* tensor, int64_t timeout_ms) {
  return guarded([&] { sum(*group->group, *tensor, milliseconds(timeout_ms)); });
}

// Gives rank 0's tensor to all, in place.
char* orco_group_broadcast(const orco_group* group, const at::Tensor* tensor, int64_t timeout_ms) {
  return guarded([&] { broadcast(*group->group, *tensor, milliseconds(timeout_ms)); });
}

// Sums `part` over all ranks into a new tensor; gradients flow back.
char* orco_group_sum_with_gradient(
    const orco_group* group, const at::Tensor* part, int64_t timeout_ms, at::Tensor** total) {
  return guarded([&] { *total = new at::Tensor(Sum::apply(*part, group->group, timeout_ms)); });
}

// The rows of all ranks, as many of each, in a new tensor; gradients flow back.
char* orco_group_gather(const orco_group* group, const at::Tensor* rows, int64_t timeout_ms, at::Tensor** all) {
  return guarded([&] { *all = new at::Tensor(Gather::apply(*rows, group->group, timeout_ms)); });
}

void orco_group_free(orco_group* group) {
  delete group;
}

void orco_text_free(char* text) {
  std::free(text);
}

} // extern "C"

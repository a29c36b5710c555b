// Takes the place of a header of Gloo that PyTorch's wheel lacks. c10d's ProcessGroupGloo.hpp holds contexts by
// std::shared_ptr; they are made and used inside libtorch alone, so their layout is of no interest here.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

} // namespace gloo

// Takes the place of a header of Gloo that PyTorch's wheel lacks. c10d's ProcessGroupGloo.hpp passes devices and buffers
// by smart pointers; they are made and used inside libtorch alone.
#pragma once

namespace gloo {
namespace transport {

class Device {
 public:
  virtual ~Device() = 0;
};

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer() = 0;
};

} // namespace transport
} // namespace gloo

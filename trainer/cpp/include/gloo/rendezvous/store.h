// Takes the place of a header of Gloo that PyTorch's wheel lacks. c10d's ProcessGroupGloo.hpp derives a class from this
// one; libtorch alone makes objects of it, so that no table of virtual functions is made from this declaration.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace gloo {
namespace rendezvous {

class Store {
 public:
  virtual ~Store();
  virtual void set(const std::string& key, const std::vector<char>& value) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};

} // namespace rendezvous
} // namespace gloo

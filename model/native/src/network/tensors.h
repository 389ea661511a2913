// What the library is given: tensors as they lie in a checkpoint, by the names they have there.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace dragoman {

enum class NumberType : int32_t { float32 = 0, bfloat16 = 1, float16 = 2 };

// A matrix in row order; a vector is one row.
struct Tensor {
  const void* data;
  NumberType type;
  int64_t rows;
  int64_t columns;

  // Copies in float32, of everything or of one row.
  std::vector<float> floats() const;
  void copy_row(int64_t row, float* to) const;
};

class Tensors {
 public:
  void add(const std::string& name, const Tensor& tensor) { tensors_[name] = tensor; }
  bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  const Tensor& at(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw std::invalid_argument("tensor '" + name + "' is missing");
    return found->second;
  }

 private:
  std::map<std::string, Tensor> tensors_;
};

}  // namespace dragoman

// The tensors of a checkpoint, by name, in the memory of the caller.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace dragoman {

enum class NumberType : int32_t { float32 = 0, bfloat16 = 1, float16 = 2 };

inline float from_bfloat16(uint16_t half) {
  const uint32_t word = uint32_t{half} << 16;
  float number;
  std::memcpy(&number, &word, sizeof(number));
  return number;
}

inline float from_float16(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                          : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                          : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

// A view of a matrix in row order; a vector has one row.
struct Tensor {
  const void* data;
  NumberType type;
  int64_t rows;
  int64_t columns;

  // Converts a row to float32.
  void copy_row(int64_t row, float* to) const {
    const auto* numbers = static_cast<const float*>(data) + row * columns;
    const auto* halves = static_cast<const uint16_t*>(data) + row * columns;
    switch (type) {
      case NumberType::float32: std::copy(numbers, numbers + columns, to); break;
      case NumberType::bfloat16: std::transform(halves, halves + columns, to, from_bfloat16); break;
      case NumberType::float16: std::transform(halves, halves + columns, to, from_float16); break;
    }
  }

  // Converts all rows to float32.
  std::vector<float> floats() const {
    std::vector<float> result(rows * columns);
    for (int64_t row = 0; row < rows; ++row) copy_row(row, result.data() + row * columns);
    return result;
  }
};

// A tensor with its name in the checkpoint, as plain C that ctypes fills in.
struct NamedTensor {
  const char* name;
  const void* data;
  NumberType type;
  int64_t rows;
  int64_t columns;
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

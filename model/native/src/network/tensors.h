// The tensors of a checkpoint, by name, which the caller reads one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace dragoman {

enum class NumberType : int32_t { float32 = 0, bfloat16 = 1, float16 = 2, int8 = 3 };

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

// Some rows of a matrix, as plain C that ctypes fills in; a vector has one row.
struct Tensor {
  const void* data;
  const float* scales;  // int8: a number is its integer times the scale of its row; null otherwise
  NumberType type;
  int64_t rows;  // of the whole matrix
  int64_t columns;

  const int8_t* integers(int64_t row) const { return static_cast<const int8_t*>(data) + row * columns; }

  // Converts a row to float32.
  void copy_row(int64_t row, float* to) const {
    const auto* numbers = static_cast<const float*>(data) + row * columns;
    const auto* halves = static_cast<const uint16_t*>(data) + row * columns;
    switch (type) {
      case NumberType::float32: std::copy(numbers, numbers + columns, to); break;
      case NumberType::bfloat16: std::transform(halves, halves + columns, to, from_bfloat16); break;
      case NumberType::float16: std::transform(halves, halves + columns, to, from_float16); break;
      case NumberType::int8:
        for (int64_t i = 0; i < columns; ++i) to[i] = static_cast<float>(integers(row)[i]) * scales[row];
    }
  }
};

// Writes `count` rows of a tensor from `first` on, or fewer at its end, which stay valid until the next call. Returns
// 1, or 0 if there is no such tensor, or -1 if it cannot be read. A count of 0 asks for its shape only.
using ReadTensor = int32_t (*)(const char* name, int64_t first, int64_t count, Tensor* rows);

class Tensors {
 public:
  explicit Tensors(ReadTensor read) : read_(read) {}

  bool has(const std::string& name) const {
    Tensor shape;
    return read_(name.c_str(), 0, 0, &shape) > 0;
  }

  // How many numbers a tensor has; throws as `read`.
  int64_t size(const std::string& name) const {
    const Tensor shape = read(name, 0, 0);
    return shape.rows * shape.columns;
  }

  // Throws std::invalid_argument if there is no such tensor, or it cannot be read.
  Tensor read(const std::string& name, int64_t first, int64_t count) const {
    Tensor rows;
    const int32_t outcome = read_(name.c_str(), first, count, &rows);
    if (outcome <= 0) throw std::invalid_argument("tensor '" + name + (outcome ? "' is unreadable" : "' is missing"));
    return rows;
  }

  // Calls visit(row, rows, index) for every row, which is number `index` of `rows`. Few rows are in memory at a time.
  template <typename Visitor>
  void for_each_row(const std::string& name, const Visitor& visit) const {
    constexpr int64_t kRowsAtOnce = 256;
    for (int64_t row = 0, total = 1; row < total;) {
      const Tensor rows = read(name, row, kRowsAtOnce);
      total = rows.rows;
      for (int64_t index = 0; index < kRowsAtOnce && row < total; ++index) visit(row++, rows, index);
    }
  }

  // All numbers as float32.
  std::vector<float> floats(const std::string& name) const {
    std::vector<float> numbers;
    for_each_row(name, [&](int64_t row, const Tensor& rows, int64_t index) {
      numbers.resize(rows.rows * rows.columns);
      rows.copy_row(index, numbers.data() + row * rows.columns);
    });
    return numbers;
  }

 private:
  ReadTensor read_;
};

}  // namespace dragoman

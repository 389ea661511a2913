#include "network/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dragoman {
namespace {

float from_bfloat16(uint16_t half) {
  const uint32_t word = uint32_t{half} << 16;
  float number;
  std::memcpy(&number, &word, sizeof(number));
  return number;
}

float from_float16(uint16_t half) {
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                          : exponent == 0 ? std::ldexp(fraction, -24)
                                          : std::ldexp(fraction + 1024, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

}  // namespace

std::vector<float> Tensor::floats() const {
  std::vector<float> result(rows * columns);
  for (int64_t row = 0; row < rows; ++row) copy_row(row, result.data() + row * columns);
  return result;
}

void Tensor::copy_row(int64_t row, float* to) const {
  const auto* numbers = static_cast<const float*>(data) + row * columns;
  const auto* halves = static_cast<const uint16_t*>(data) + row * columns;
  switch (type) {
    case NumberType::float32: std::copy(numbers, numbers + columns, to); break;
    case NumberType::bfloat16: std::transform(halves, halves + columns, to, from_bfloat16); break;
    case NumberType::float16: std::transform(halves, halves + columns, to, from_float16); break;
  }
}

}  // namespace dragoman

// Layer norm of rows, (x − mean) / √(variance + ε) · gain + shift (https://arxiv.org/abs/1607.06450), and its variants.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/buffer.h"
#include "kernels/simd.h"

namespace dragoman {

struct Moments {
  float mean;
  float squares;  // Σ (x − mean)²
};

// Σ (x − mean)².
inline float squares_around(float mean, const float* row, int64_t width) {
  const int64_t whole = width / kLanes * kLanes;
  Floats squares = {};
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Floats distance = floats(row + i) - mean;
    squares = multiply_add(distance, distance, squares);
  }
  float sum_of_squares = reduce_sum(squares);
  for (int64_t i = whole; i < width; ++i) sum_of_squares += (row[i] - mean) * (row[i] - mean);
  return sum_of_squares;
}

inline Moments moments(const float* row, int64_t width) {
  const int64_t whole = width / kLanes * kLanes;
  Floats sums = {};
  for (int64_t i = 0; i < whole; i += kLanes) sums += floats(row + i);
  float total = reduce_sum(sums);
  for (int64_t i = whole; i < width; ++i) total += row[i];
  const float mean = total / static_cast<float>(width);
  return {mean, squares_around(mean, row, width)};
}

// What a norm divides by: √(variance + ε), the standard deviation (with Bessel's correction) + ε, or
// √(mean square + ε) without subtracting the mean (RMSNorm, https://arxiv.org/abs/1910.07467).
enum class NormForm : int32_t { variance = 0, standard_deviation = 1, root_mean_square = 2 };

class LayerNorm {
 public:
  LayerNorm() = default;  // the identity, see `is_identity`; must not be applied

  LayerNorm(Buffer<float> gain, Buffer<float> shift, float epsilon, NormForm form)
      : gain_(std::move(gain)), shift_(std::move(shift)), epsilon_(epsilon), form_(form) {}

  bool is_identity() const { return gain_.is_empty(); }

  // Rows are contiguous; `from` and `to` may be the same.
  void apply(const float* from, float* to, int rows) const {
    const int64_t width = gain_.size();
    for (int row = 0; row < rows; ++row) apply_to_row(from + row * width, to + row * width);
  }

 private:
  void apply_to_row(const float* from, float* to) const {
    const int64_t width = gain_.size(), whole = width / kLanes * kLanes;
    const bool is_centred = form_ != NormForm::root_mean_square;
    const auto [mean, squares] = is_centred ? moments(from, width) : Moments{0.0f, squares_around(0.0f, from, width)};
    const float divisor = form_ == NormForm::standard_deviation
                              ? std::sqrt(squares / static_cast<float>(width - 1)) + epsilon_
                              : std::sqrt(squares / static_cast<float>(width) + epsilon_);
    const float *gain = gain_.data(), *shift = shift_.data();
    // A row that overflowed becomes NaN. Dividing it by infinity would give zeros, which look valid.
    const float factor = std::isfinite(divisor) ? 1.0f / divisor : NAN;

    for (int64_t i = 0; i < whole; i += kLanes) {
      const Floats normed = (floats(from + i) - mean) * factor;
      store(to + i, multiply_add(normed, floats(gain + i), floats(shift + i)));
    }
    for (int64_t i = whole; i < width; ++i) to[i] = (from[i] - mean) * factor * gain[i] + shift[i];
  }

  Buffer<float> gain_;
  Buffer<float> shift_;
  float epsilon_ = 0.0f;
  NormForm form_ = NormForm::variance;
};

}  // namespace dragoman

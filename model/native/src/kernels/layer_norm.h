// Layer norm of rows, (x − mean) / √(variance + ε) · gain + shift (https://arxiv.org/abs/1607.06450).
#pragma once

#include <cmath>
#include <vector>

#include "kernels/simd.h"

namespace dragoman {

struct Moments {
  float mean;
  float squares;  // Σ (x − mean)²
};

inline Moments moments(const float* row, int64_t width) {
  const int64_t whole = width / kLanes * kLanes;
  Floats sums = {}, squares = {};
  for (int64_t i = 0; i < whole; i += kLanes) sums += floats(row + i);
  float total = reduce_sum(sums);
  for (int64_t i = whole; i < width; ++i) total += row[i];
  const float mean = total / static_cast<float>(width);
  for (int64_t i = 0; i < whole; i += kLanes) {
    const Floats distance = floats(row + i) - mean;
    squares = multiply_add(distance, distance, squares);
  }
  float sum_of_squares = reduce_sum(squares);
  for (int64_t i = whole; i < width; ++i) sum_of_squares += (row[i] - mean) * (row[i] - mean);
  return {mean, sum_of_squares};
}

class LayerNorm {
 public:
  LayerNorm() = default;  // the identity, see `is_identity`; must not be applied

  // `shift` may be empty. With `divides_by_deviation` the divisor is the standard deviation (with Bessel's correction)
  // plus epsilon.
  LayerNorm(std::vector<float> gain, std::vector<float> shift, float epsilon, bool divides_by_deviation)
      : gain_(std::move(gain)),
        shift_(std::move(shift)),
        epsilon_(epsilon),
        divides_by_deviation_(divides_by_deviation) {
    shift_.resize(gain_.size());
  }

  bool is_identity() const { return gain_.empty(); }

  // Rows are contiguous; `from` and `to` may be the same.
  void apply(const float* from, float* to, int rows) const {
    const int64_t width = static_cast<int64_t>(gain_.size());
    for (int row = 0; row < rows; ++row) apply_to_row(from + row * width, to + row * width);
  }

 private:
  void apply_to_row(const float* from, float* to) const {
    const int64_t width = static_cast<int64_t>(gain_.size()), whole = width / kLanes * kLanes;
    const auto [mean, squares] = moments(from, width);
    const float divisor = divides_by_deviation_ ? std::sqrt(squares / static_cast<float>(width - 1)) + epsilon_
                                                : std::sqrt(squares / static_cast<float>(width) + epsilon_);
    // A row that overflowed becomes NaN. Dividing it by infinity would give zeros, which look valid.
    const float factor = std::isfinite(divisor) ? 1.0f / divisor : NAN;

    for (int64_t i = 0; i < whole; i += kLanes) {
      const Floats normed = (floats(from + i) - mean) * factor;
      store(to + i, multiply_add(normed, floats(gain_.data() + i), floats(shift_.data() + i)));
    }
    for (int64_t i = whole; i < width; ++i) to[i] = (from[i] - mean) * factor * gain_[i] + shift_[i];
  }

  std::vector<float> gain_;
  std::vector<float> shift_;
  float epsilon_ = 0.0f;
  bool divides_by_deviation_ = false;
};

}  // namespace dragoman

// Layer norm of rows (https://arxiv.org/abs/1607.06450).
#pragma once

#include <cmath>
#include <vector>

#include "kernels/simd.h"

namespace dragoman {

class LayerNorm {
 public:
  LayerNorm() = default;  // leaves rows as they are

  // `shift` may be empty. With `divides_by_deviation` the divisor is (standard deviation + epsilon), with
  // Bessel's correction, instead of sqrt(variance + epsilon).
  LayerNorm(std::vector<float> gain, std::vector<float> shift, float epsilon, bool divides_by_deviation)
      : gain_(std::move(gain)),
        shift_(std::move(shift)),
        epsilon_(epsilon),
        divides_by_deviation_(divides_by_deviation) {
    shift_.resize(gain_.size());
  }

  bool changes() const { return !gain_.empty(); }

  // Rows lie one after the other; `from` and `to` may be the same.
  void apply(const float* from, float* to, int rows) const {
    const int64_t width = static_cast<int64_t>(gain_.size());
    for (int row = 0; row < rows; ++row) apply_to_row(from + row * width, to + row * width);
  }

 private:
  void apply_to_row(const float* from, float* to) const {
    const int width = static_cast<int>(gain_.size());
    const int whole = width / kLanes * kLanes;
    Floats sums = {};
    for (int i = 0; i < whole; i += kLanes) sums += floats(from + i);
    float total = sum(sums);
    for (int i = whole; i < width; ++i) total += from[i];
    const float mean = total / width;

    Floats squares = {};
    for (int i = 0; i < whole; i += kLanes) {
      const Floats distance = floats(from + i) - mean;
      squares = fused(distance, distance, squares);
    }
    float spread_out = sum(squares);
    for (int i = whole; i < width; ++i) spread_out += (from[i] - mean) * (from[i] - mean);
    const float divisor = divides_by_deviation_ ? std::sqrt(spread_out / (width - 1)) + epsilon_
                                                : std::sqrt(spread_out / width + epsilon_);
    // Divided by infinity, a row that overflowed would pass for one of ordinary numbers.
    const float factor = std::isfinite(divisor) ? 1.0f / divisor : NAN;

    for (int i = 0; i < whole; i += kLanes) {
      const Floats normed = (floats(from + i) - mean) * factor;
      store(to + i, fused(normed, floats(gain_.data() + i), floats(shift_.data() + i)));
    }
    for (int i = whole; i < width; ++i) to[i] = (from[i] - mean) * factor * gain_[i] + shift_[i];
  }

  std::vector<float> gain_;
  std::vector<float> shift_;
  float epsilon_ = 0.0f;
  bool divides_by_deviation_ = false;
};

}  // namespace dragoman

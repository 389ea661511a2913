// Products of small float32 matrices that fit in the cache, such as those of attention within a sentence. A row of a
// product does not depend on the other rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/simd.h"
#include "kernels/transpose.h"

namespace dragoman {

// Transposes (rows, width), whose rows are `stride` apart, to (width, padded), padded with zeros.
inline void transpose_rows(const float* from, int64_t stride, int64_t rows, int64_t width, int64_t padded, float* to) {
  for (int64_t row = 0; row < padded; row += kLanes) {
    for (int64_t column = 0; column < width; column += kLanes) {
      Floats block[kLanes] = {};
      for (int64_t i = 0; i < std::min<int64_t>(kLanes, rows - row); ++i) {
        block[i] = floats(from + (row + i) * stride + column);
      }
      transpose(block);
      for (int64_t i = 0; i < kLanes; ++i) store(to + (column + i) * padded + row, block[i]);
    }
  }
}

// Element (i, k) of the left factor is numbers[i · row_step + k · inner_step].
struct LeftFactor {
  const float* numbers;
  int64_t row_step;
  int64_t inner_step;
};

template <int kRows, int kVectors>
void multiply_small_block(LeftFactor left, const float* right, int64_t right_stride, int64_t inner, float* out,
                          int64_t out_stride) {
  Floats sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < inner; ++k) {
    for (int row = 0; row < kRows; ++row) {
      const Floats factor = broadcast(left.numbers[row * left.row_step + k * left.inner_step]);
      for (int i = 0; i < kVectors; ++i) {
        sums[row][i] = multiply_add(factor, floats(right + k * right_stride + i * kLanes), sums[row][i]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kVectors; ++i) store(out + row * out_stride + i * kLanes, sums[row][i]);
  }
}

// out = left · right, where `columns` is a multiple of kLanes.
inline void multiply_small(LeftFactor left, const float* right, int64_t right_stride, int64_t rows, int64_t inner,
                           int64_t columns, float* out, int64_t out_stride) {
  for_each_block<4 * kLanes, 2 * kLanes, kLanes>(columns, [&](auto width, int64_t column) {
    constexpr int kVectors = decltype(width)::value / kLanes;
    constexpr int kRows = (kLanes == 16 ? 6 : 3) * (kVectors == 1 ? 2 : 1);  // as many sums as fit in registers
    for_each_block<kRows, 2, 1>(rows, [&](auto height, int64_t row) {
      const LeftFactor from{left.numbers + row * left.row_step, left.row_step, left.inner_step};
      multiply_small_block<decltype(height)::value, kVectors>(from, right + column, right_stride, inner,
                                                              out + row * out_stride + column, out_stride);
    });
  });
}

}  // namespace dragoman

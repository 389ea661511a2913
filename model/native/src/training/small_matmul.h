// Products of small float32 matrices that lie in the cache.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/simd.h"

namespace dragoman {

// left(i, k) is at numbers[i · row_step + k · inner_step].
struct LeftFactor {
  const float* numbers;
  int64_t row_step;
  int64_t inner_step;
};

template <int kRows, int kVectors>
inline void multiply_block(LeftFactor left, const float* right, int64_t right_stride, int64_t inner, float* out,
                           int64_t out_stride) {
  Floats sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < inner; ++k) {
    for (int row = 0; row < kRows; ++row) {
      const Floats factor = spread(left.numbers[row * left.row_step + k * left.inner_step]);
      for (int i = 0; i < kVectors; ++i) {
        sums[row][i] = fused(factor, floats(right + k * right_stride + i * kLanes), sums[row][i]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kVectors; ++i) store(out + row * out_stride + i * kLanes, sums[row][i]);
  }
}

template <int kRows, int kVectors>
inline void multiply_columns(LeftFactor left, const float* right, int64_t right_stride, int64_t rows, int64_t inner,
                             float* out, int64_t out_stride) {
  int64_t row = 0;
  const auto next = [&](auto block) {
    constexpr int kBlock = decltype(block)::value;
    for (; row + kBlock <= rows; row += kBlock) {
      const LeftFactor from{left.numbers + row * left.row_step, left.row_step, left.inner_step};
      multiply_block<kBlock, kVectors>(from, right, right_stride, inner, out + row * out_stride, out_stride);
    }
  };
  next(std::integral_constant<int, kRows>{});
  if constexpr (kRows > 2) next(std::integral_constant<int, 2>{});
  next(std::integral_constant<int, 1>{});
}

// out = left · right, `columns` a multiple of kLanes.
inline void multiply(LeftFactor left, const float* right, int64_t right_stride, int64_t rows, int64_t inner,
                     int64_t columns, float* out, int64_t out_stride) {
#if defined(__AVX512F__)
  constexpr int kRows = 6;  // times 4, 2 or 1 vectors: as many sums as there are registers for
#else
  constexpr int kRows = 3;
#endif
  int64_t column = 0;
  const auto next = [&](auto vectors, auto block) {
    constexpr int kVectors = decltype(vectors)::value, kBlock = decltype(block)::value;
    for (; column + kVectors * kLanes <= columns; column += kVectors * kLanes) {
      multiply_columns<kBlock, kVectors>(left, right + column, right_stride, rows, inner, out + column, out_stride);
    }
  };
  next(std::integral_constant<int, 4>{}, std::integral_constant<int, kRows>{});
  next(std::integral_constant<int, 2>{}, std::integral_constant<int, kRows>{});
  next(std::integral_constant<int, 1>{}, std::integral_constant<int, 2 * kRows>{});
}

}  // namespace dragoman

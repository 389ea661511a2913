// The innermost part of a product of bfloat16 matrices: a tile of sums that stays in registers.
//
// Numbers come in words of two neighbours along the inner dimension, as vdpbf16ps multiplies them.
#pragma once

#if defined(__AVX512BF16__)

#include <cstdint>
#include <type_traits>

#include "numbers.h"

namespace dragoman {

constexpr int kTileRows = 6;
constexpr int kPanelVectors = 4;  // 6 × 4 sums, 4 vectors of the right factor and one of the left: 29 of 32 registers
constexpr int kPanelColumns = kPanelVectors * kLanes;  // columns

// left(row, word) is the word at row · row_step + word · word_step. Pairs of 16-bit numbers need not be aligned as
// words are.
struct LeftWords {
  const void* words;
  int64_t row_step;
  int64_t word_step;

  const char* place(int64_t row, int64_t word) const {
    return static_cast<const char*>(words) + (row * row_step + word * word_step) * sizeof(uint32_t);
  }
  LeftWords at(int64_t row, int64_t word) const { return {place(row, word), row_step, word_step}; }
};

// Where the sums of a tile start from and go to.
struct TileSums {
  const float* start;  // of every row; null: from `sums`
  float* sums;
  int64_t sums_stride;
  uint16_t* result;  // gets the sums as bfloat16; null: `sums` gets them
  int64_t result_stride;

  TileSums at(int64_t row, int64_t column) const {
    return {start == nullptr ? nullptr : start + column, sums == nullptr ? nullptr : sums + row * sums_stride + column,
            sums_stride, result == nullptr ? nullptr : result + row * result_stride + column, result_stride};
  }
};

// right: a panel, `kPanelColumns` words for each word of the inner dimension.
template <int kRows, int kVectors>
inline void multiply_tile(LeftWords left, const uint32_t* right, int64_t inner, const TileSums& out) {
  __m512 sums[kRows][kVectors];
  for (int row = 0; row < kRows; ++row) {
    const float* from = out.start != nullptr ? out.start : out.sums + row * out.sums_stride;
    for (int i = 0; i < kVectors; ++i) sums[row][i] = _mm512_loadu_ps(from + i * kLanes);
  }
  for (int64_t word = 0; word < inner; ++word, right += kPanelColumns) {
    __m512bh columns[kVectors];
    for (int i = 0; i < kVectors; ++i) columns[i] = (__m512bh)_mm512_loadu_si512(right + i * kLanes);
    for (int row = 0; row < kRows; ++row) {
      const uint32_t both = load<uint32_t>(left.place(row, word));
      const __m512bh factor = (__m512bh)_mm512_set1_epi32(static_cast<int>(both));
      for (int i = 0; i < kVectors; ++i) sums[row][i] = _mm512_dpbf16_ps(sums[row][i], factor, columns[i]);
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kVectors; ++i) {
      if (out.result != nullptr) {
        put(out.result + row * out.result_stride + i * kLanes, sums[row][i]);
      } else {
        _mm512_storeu_ps(out.sums + row * out.sums_stride + i * kLanes, sums[row][i]);
      }
    }
  }
}

template <int kVectors>
inline void multiply_tiles(LeftWords left, const uint32_t* right, int64_t rows, int64_t inner, const TileSums& out) {
  int64_t row = 0;
  const auto next = [&](auto block) {
    constexpr int kRows = decltype(block)::value;
    for (; row + kRows <= rows; row += kRows) {
      multiply_tile<kRows, kVectors>(left.at(row, 0), right, inner, out.at(row, 0));
    }
  };
  next(std::integral_constant<int, kTileRows>{});
  next(std::integral_constant<int, 3>{});
  next(std::integral_constant<int, 1>{});
}

// One panel of columns, of which the last may have fewer vectors than the others.
inline void multiply_panel(LeftWords left, const uint32_t* right, int64_t rows, int64_t inner, int64_t columns,
                           const TileSums& out) {
  switch (columns / kLanes) {
    case 1: return multiply_tiles<1>(left, right, rows, inner, out);
    case 2: return multiply_tiles<2>(left, right, rows, inner, out);
    case 3: return multiply_tiles<3>(left, right, rows, inner, out);
    default: return multiply_tiles<kPanelVectors>(left, right, rows, inner, out);
  }
}

}  // namespace dragoman

#endif

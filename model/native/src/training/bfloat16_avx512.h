// Products of bfloat16 panels by vdpbf16ps: a tile of sums stays in vector registers.
#pragma once

#include <cstdint>
#include <type_traits>

#include "training/bfloat16_panel.h"

namespace dragoman {

constexpr int kTileRows = 6;  // times 4 vectors of sums, 4 of the right factor and one of the left: 29 of 32 registers
constexpr int64_t kRowsOfStep = kTileRows;
constexpr int64_t kRowsOfBlock = 12 * kRowsOfStep;  // of a product, which a thread takes at once
constexpr int64_t kOutputsOfPart = 96;              // rows of a weight's gradient that a thread takes at once
constexpr int64_t kWordsOfBlock = 256;  // of which slopes are laid out at once, so that they stay in the cache
constexpr int64_t kWordsOfStep = 1;     // the inner dimension is a multiple of so many

struct ProductScope {};  // what a thread sets up for its products: nothing

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

// A left factor whose inner dimension runs over the rows of `from`, and whose rows are some of its columns.
inline LeftWords lay_out_left(const uint16_t* from, int64_t width, int64_t rows, int64_t columns, uint32_t* to) {
  for (int64_t row = 0; row < rows; row += 2) {
    const uint16_t* lower = from + row * width;
    interleave(lower, row + 1 < rows ? lower + width : nullptr, columns, to + row / 2 * columns);
  }
  return {to, 1, columns};
}

}  // namespace dragoman

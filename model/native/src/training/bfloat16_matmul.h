// The inner loops of bfloat16 matrix products: by AMX tiles, or by vdpbf16ps with sums in vector registers.
//
// They work on words of 32 bits, two neighbours along the inner dimension, and on panels of the right factor:
// kPanelColumns columns, word by word of the inner dimension.
#pragma once

#if defined(__AVX512BF16__)

#include <algorithm>
#include <cstdint>

#include "kernels/amx_tiles.h"
#include "kernels/buffer.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"

namespace dragoman {

constexpr int kPanelVectors = 4;
constexpr int kPanelColumns = kPanelVectors * kLanes;

// The left factor: its word (row, word) is at row · row_step + word · word_step. Words may be unaligned.
struct LeftWords {
  const void* words;
  int64_t row_step;
  int64_t word_step;

  const char* address(int64_t row, int64_t word) const {
    return static_cast<const char*>(words) + (row * row_step + word * word_step) * sizeof(uint32_t);
  }
  LeftWords at(int64_t row, int64_t word) const { return {address(row, word), row_step, word_step}; }
};

// The initial values and the destination of the sums.
struct TileSums {
  const float* start;  // initial values of every row; null: `sums`
  float* sums;
  int64_t sums_stride;
  uint16_t* result;  // receives the sums as bfloat16; null: `sums` receives them
  int64_t result_stride;

  TileSums at(int64_t row, int64_t column) const {
    return {start == nullptr ? nullptr : start + column, sums == nullptr ? nullptr : sums + row * sums_stride + column,
            sums_stride, result == nullptr ? nullptr : result + row * result_stride + column, result_stride};
  }
};

inline __m256i halves(const uint16_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
inline __m256i halves(const float* from) { return (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from)); }

// 16 words of two rows, the first one in the lower halves. `upper` may be null, which means zeros.
template <typename Number>
inline __m512i interleaved(const Number* lower, const Number* upper) {
  const __m512i first = _mm512_cvtepu16_epi32(halves(lower));
  if (upper == nullptr) return first;
  return _mm512_or_si512(first, _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves(upper)), 16));
}

template <typename Number>
inline void interleave(const Number* lower, const Number* upper, int64_t columns, uint32_t* to) {
  for (int64_t i = 0; i < columns; i += kLanes) {
    _mm512_storeu_si512(to + i, interleaved(lower + i, upper == nullptr ? nullptr : upper + i));
  }
}

#if defined(__AMX_BF16__)

constexpr int64_t kBlockRows = kBlockSide;
constexpr int64_t kPartRows = 16 * kBlockRows;  // rows of a product in one part, see for_each_part
constexpr int64_t kPartOutputs = 256;           // rows of a weight's gradient in one part
constexpr int64_t kGradientWords = 128;         // words of packed gradients that stay in the cache
constexpr int64_t kInnerMultiple = kTileSide;   // the inner dimension is a multiple of this

using ProductScope = TileScope;

// Packs a left factor whose inner dimension is the rows of `from`, and whose rows are some of its columns.
inline LeftWords pack_left(const uint16_t* from, int64_t width, int64_t rows, int64_t columns, uint32_t* to) {
  const int64_t words = round_up((rows + 1) / 2, kInnerMultiple);
  for (int64_t column = 0; column < columns; column += kLanes) {
    for (int64_t word = 0; word < words; word += kLanes) {
      __m512i block[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const int64_t row = 2 * (word + i);
        const uint16_t* lower = from + row * width + column;
        block[i] = row < rows ? interleaved(lower, row + 1 < rows ? lower + width : nullptr) : __m512i{};
      }
      transpose(block);
      for (int i = 0; i < kLanes; ++i) _mm512_storeu_si512(to + (column + i) * words + word, block[i]);
    }
  }
  return {to, words, 1};
}

// Rounds the sums of a block and stores them as results.
inline void store_block(const float* block, int64_t rows, int64_t columns, const TileSums& out) {
  for (int64_t row = 0; row < rows; ++row, block += kBlockSide) {
    uint16_t* const to = out.result + row * out.result_stride;
    if (columns == kBlockSide) {
      store(to, _mm512_cvtne2ps_pbh(floats(block + kLanes), floats(block)));
    } else {
      store_floats(to, floats(block));
    }
  }
}

// Multiplies some rows, for which the tiles are configured, with all columns of a panel.
inline void multiply_rows(LeftWords left, const uint32_t* right, int64_t rows, int64_t height, int64_t inner,
                          int64_t columns, const TileSums& out) {
  constexpr int64_t kWord = sizeof(uint32_t);
  alignas(kCacheLine) float block[kBlockSide * kBlockSide];
  for (int64_t column = 0; column < columns; column += kBlockSide) {
    const int64_t width = std::min<int64_t>(kBlockSide, columns - column);
    for (int64_t row = 0; row < rows; row += height) {
      const TileSums to = out.at(row, column);
      TileProduct product{
          left.address(row, 0), left.row_step * kWord, right + column, kPanelColumns * kWord, inner, to.start, 0, block,
          kBlockSide * kWord};
      if (to.start == nullptr) product.start = to.sums, product.start_stride = to.sums_stride * kWord;
      if (to.result == nullptr) product.sums = to.sums, product.sums_stride = to.sums_stride * kWord;
      multiply_tile_block<TileNumbers::bfloat16>(product, height, width);
      if (to.result != nullptr) store_block(block, height, width, to);
    }
  }
}

// The words of a left row must be contiguous; `inner` is a multiple of kInnerMultiple.
inline void multiply_panel(LeftWords left, const uint32_t* right, int64_t rows, int64_t inner, int64_t columns,
                           const TileSums& out) {
  const int64_t rest = rows % kBlockSide, whole = rows - rest;
  multiply_rows(left, right, whole, kBlockSide, inner, columns, out);
  if (rest == 0) return;
  TileScope::configure(rest);
  multiply_rows(left.at(whole, 0), right, rest, rest, inner, columns, out.at(whole, 0));
  TileScope::configure(kBlockSide);
}

#else

constexpr int kTileRows = 6;  // times 4 vectors of sums, 4 of the right factor, one of the left: 29 of 32 registers
constexpr int64_t kBlockRows = kTileRows;
constexpr int64_t kPartRows = 12 * kBlockRows;  // as above
constexpr int64_t kPartOutputs = 96;
constexpr int64_t kGradientWords = 256;
constexpr int64_t kInnerMultiple = 1;

struct ProductScope {};  // vector instructions need no configuration

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
      const uint32_t both = load<uint32_t>(left.address(row, word));
      const __m512bh factor = (__m512bh)_mm512_set1_epi32(static_cast<int>(both));
      for (int i = 0; i < kVectors; ++i) sums[row][i] = _mm512_dpbf16_ps(sums[row][i], factor, columns[i]);
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kVectors; ++i) {
      if (out.result != nullptr) {
        store_floats(out.result + row * out.result_stride + i * kLanes, sums[row][i]);
      } else {
        _mm512_storeu_ps(out.sums + row * out.sums_stride + i * kLanes, sums[row][i]);
      }
    }
  }
}

template <int kVectors>
inline void multiply_tiles(LeftWords left, const uint32_t* right, int64_t rows, int64_t inner, const TileSums& out) {
  for_each_block<kTileRows, 3, 1>(rows, [&](auto size, int64_t row) {
    multiply_tile<decltype(size)::value, kVectors>(left.at(row, 0), right, inner, out.at(row, 0));
  });
}

// Multiplies one panel; the last one may have fewer vectors than the others.
inline void multiply_panel(LeftWords left, const uint32_t* right, int64_t rows, int64_t inner, int64_t columns,
                           const TileSums& out) {
  switch (columns / kLanes) {
    case 1: return multiply_tiles<1>(left, right, rows, inner, out);
    case 2: return multiply_tiles<2>(left, right, rows, inner, out);
    case 3: return multiply_tiles<3>(left, right, rows, inner, out);
    default: return multiply_tiles<kPanelVectors>(left, right, rows, inner, out);
  }
}

// Packs a left factor whose inner dimension is the rows of `from`, and whose rows are some of its columns.
inline LeftWords pack_left(const uint16_t* from, int64_t width, int64_t rows, int64_t columns, uint32_t* to) {
  for (int64_t row = 0; row < rows; row += 2) {
    const uint16_t* lower = from + row * width;
    interleave(lower, row + 1 < rows ? lower + width : nullptr, columns, to + row / 2 * columns);
  }
  return {to, 1, columns};
}

#endif

}  // namespace dragoman

#endif

// Products of bfloat16 panels by AMX.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/amx_tiles.h"
#include "kernels/buffer.h"
#include "kernels/transpose.h"
#include "training/bfloat16_panel.h"

namespace dragoman {

constexpr int64_t kRowsOfStep = kBlockSide;
constexpr int64_t kRowsOfBlock = 16 * kRowsOfStep;  // of a product, which a thread takes at once
constexpr int64_t kOutputsOfPart = 256;             // rows of a weight's gradient that a thread takes at once
constexpr int64_t kWordsOfBlock = 128;       // of which slopes are laid out at once, so that they stay in the cache
constexpr int64_t kWordsOfStep = kTileSide;  // the inner dimension is a multiple of so many

using ProductScope = TileScope;

// A left factor whose inner dimension runs over the rows of `from`, and whose rows are some of its columns.
inline LeftWords lay_out_left(const uint16_t* from, int64_t width, int64_t rows, int64_t columns, uint32_t* to) {
  const int64_t words = rounded_up((rows + 1) / 2, kWordsOfStep);
  for (int64_t column = 0; column < columns; column += kLanes) {
    for (int64_t word = 0; word < words; word += kLanes) {
      __m512i block[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const int64_t row = 2 * (word + i);
        const uint16_t* lower = from + row * width + column;
        block[i] = row < rows ? interleaved(lower, row + 1 < rows ? lower + width : nullptr) : __m512i{};
      }
      turn(block);
      for (int i = 0; i < kLanes; ++i) _mm512_storeu_si512(to + (column + i) * words + word, block[i]);
    }
  }
  return {to, words, 1};
}

// Rounds the sums of a block and puts them where they belong.
inline void put_block(const float* block, int64_t rows, int64_t columns, const TileSums& out) {
  for (int64_t row = 0; row < rows; ++row, block += kBlockSide) {
    uint16_t* const to = out.result + row * out.result_stride;
    if (columns == kBlockSide) {
      store(to, _mm512_cvtne2ps_pbh(floats(block + kLanes), floats(block)));
    } else {
      put(to, floats(block));
    }
  }
}

// Some rows, for which the tiles were fitted, and all columns of a panel.
inline void multiply_rows(LeftWords left, const uint32_t* right, int64_t rows, int64_t height, int64_t inner,
                          int64_t columns, const TileSums& out) {
  constexpr int64_t kWord = sizeof(uint32_t);
  alignas(kCacheLine) float block[kBlockSide * kBlockSide];
  for (int64_t column = 0; column < columns; column += kBlockSide) {
    const int64_t width = std::min<int64_t>(kBlockSide, columns - column);
    for (int64_t row = 0; row < rows; row += height) {
      const TileSums to = out.at(row, column);
      TileProduct product{
          left.place(row, 0), left.row_step * kWord, right + column, kPanelColumns * kWord, inner, to.start, 0, block,
          kBlockSide * kWord};
      if (to.start == nullptr) product.start = to.sums, product.start_stride = to.sums_stride * kWord;
      if (to.result == nullptr) product.sums = to.sums, product.sums_stride = to.sums_stride * kWord;
      multiply_tile_block<TileNumbers::bfloat16>(product, height, width);
      if (to.result != nullptr) put_block(block, height, width, to);
    }
  }
}

// The words of a left row are neighbours here; `inner` is a multiple of kWordsOfStep.
inline void multiply_panel(LeftWords left, const uint32_t* right, int64_t rows, int64_t inner, int64_t columns,
                           const TileSums& out) {
  const int64_t rest = rows % kBlockSide, whole = rows - rest;
  multiply_rows(left, right, whole, kBlockSide, inner, columns, out);
  if (rest == 0) return;
  TileScope::fit(rest);
  multiply_rows(left.at(whole, 0), right, rest, rest, inner, columns, out.at(whole, 0));
  TileScope::fit(kBlockSide);
}

}  // namespace dragoman

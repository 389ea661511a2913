// What the innermost part of a product of bfloat16 matrices works on: words of two neighbours along the inner
// dimension, and a panel of columns of the right factor.
#pragma once

#if defined(__AVX512BF16__)

#include <cstdint>

#include "kernels/number_types.h"

namespace dragoman {

constexpr int kPanelVectors = 4;
constexpr int kPanelColumns = kPanelVectors * kLanes;

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

inline __m256i halves(const uint16_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
inline __m256i halves(const float* from) { return (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from)); }

// 16 words of two rows, the first in the lower halves; a second row that is missing counts as zeros.
template <typename Number>
inline __m512i interleaved(const Number* lower, const Number* upper) {
  const __m512i first = _mm512_cvtepu16_epi32(halves(lower));
  if (upper == nullptr) return first;
  return _mm512_or_si512(first, _mm512_slli_epi32(_mm512_cvtepu16_epi32(halves(upper)), 16));
}

// The same for several columns.
template <typename Number>
inline void interleave(const Number* lower, const Number* upper, int64_t columns, uint32_t* to) {
  for (int64_t i = 0; i < columns; i += kLanes) {
    _mm512_storeu_si512(to + i, interleaved(lower + i, upper == nullptr ? nullptr : upper + i));
  }
}

}  // namespace dragoman

#endif

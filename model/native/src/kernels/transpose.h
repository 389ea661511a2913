// Transposes a square block of kLanes vectors with lanes of 32 bits, in place.
#pragma once

#include "kernels/simd.h"

namespace dragoman {

#if defined(__AVX512F__)

inline void transpose(__m512i (&rows)[kLanes]) {
  __m512i pairs[kLanes], fours[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < kLanes; i += 4) {
    for (int half = 0; half < 2; ++half) {
      fours[i + 2 * half] = _mm512_unpacklo_epi64(pairs[i + half], pairs[i + half + 2]);
      fours[i + 2 * half + 1] = _mm512_unpackhi_epi64(pairs[i + half], pairs[i + half + 2]);
    }
  }
  for (int i = 0; i < 4; ++i) {
    const __m512i even = _mm512_shuffle_i32x4(fours[i], fours[i + 4], 0x88);
    const __m512i odd = _mm512_shuffle_i32x4(fours[i], fours[i + 4], 0xdd);
    const __m512i later_even = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], 0x88);
    const __m512i later_odd = _mm512_shuffle_i32x4(fours[i + 8], fours[i + 12], 0xdd);
    rows[i] = _mm512_shuffle_i32x4(even, later_even, 0x88);
    rows[i + 4] = _mm512_shuffle_i32x4(odd, later_odd, 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(even, later_even, 0xdd);
    rows[i + 12] = _mm512_shuffle_i32x4(odd, later_odd, 0xdd);
  }
}

inline void transpose(Floats (&rows)[kLanes]) { transpose(reinterpret_cast<__m512i(&)[kLanes]>(rows)); }

#else

inline void transpose(Floats (&rows)[kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < i; ++j) {
      const float other = rows[i][j];
      rows[i][j] = rows[j][i];
      rows[j][i] = other;
    }
  }
}

#endif

}  // namespace dragoman

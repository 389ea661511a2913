// Numbers of a training step as torch keeps them, float32 or bfloat16; they are computed with in float32.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/simd.h"

namespace dragoman {

inline void put(float* to, Floats x) { store(to, x); }

inline void put(uint16_t* to, Floats x) {
#if defined(__AVX512BF16__)
  store(to, _mm512_cvtneps_pbh(x));
#else
  store(to, floats_to_bfloat16(x));
#endif
}

inline float number(const float* from) { return *from; }
inline float number(const uint16_t* from) { return from_bits(Ints{*from << 16})[0]; }

// The first `count` numbers, and `rest` after them.
template <typename Number>
inline Floats some(const Number* from, int64_t count, float rest) {
  if (count >= kLanes) return floats(from);
  float vector[kLanes];
  std::fill(vector, vector + kLanes, rest);
  for (int64_t i = 0; i < count; ++i) vector[i] = number(from + i);
  return floats(vector);
}

template <typename Number>
inline void put_some(Number* to, int64_t count, Floats x) {
  if (count >= kLanes) {
    put(to, x);
    return;
  }
  Number vector[kLanes];
  put(vector, x);
  std::copy(vector, vector + count, to);
}

// Calls body with a null pointer of the type that the numbers have.
template <typename Body>
void with_number_type(bool is_bfloat16, const Body& body) {
  if (is_bfloat16) {
    body(static_cast<uint16_t*>(nullptr));
  } else {
    body(static_cast<float*>(nullptr));
  }
}

}  // namespace dragoman

// Vectors of numbers, as wide as the instruction set has them; everything else is written on top of these.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace dragoman {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif

using Floats = float __attribute__((vector_size(kLanes * 4)));
using Ints = int32_t __attribute__((vector_size(kLanes * 4)));
using Bytes = uint8_t __attribute__((vector_size(kLanes)));
using Shorts = int16_t __attribute__((vector_size(kLanes * 2)));
using Halves = uint16_t __attribute__((vector_size(kLanes * 2)));

template <typename Vector, typename Number>
inline Vector load(const Number* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

template <typename Vector, typename Number>
inline void store(Number* to, Vector vector) {
  std::memcpy(to, &vector, sizeof(vector));
}

inline Floats floats(const float* from) { return load<Floats>(from); }
inline Floats spread(float number) { return number - Floats{}; }

inline Ints bits(Floats x) { return reinterpret_cast<Ints>(x); }
inline Floats from_bits(Ints x) { return reinterpret_cast<Floats>(x); }

// a · b + c with one rounding.
inline Floats fused(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#else
  return _mm256_fmadd_ps(a, b, c);
#endif
}

inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// Nearest integers, halves to even.
inline Ints rounded(Floats x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Ints>(_mm512_cvtps_epi32(x));
#else
  return reinterpret_cast<Ints>(_mm256_cvtps_epi32(x));
#endif
}

// One number from all lanes. The order is fixed: halves are folded onto each other.
template <typename Combine>
inline float fold(Floats x, Combine combine) {
#if defined(__AVX512F__)
  const __m256 eight = combine(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
#else
  const __m256 eight = x;
#endif
  const __m128 four = combine(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = combine(four, _mm_movehl_ps(four, four));
  return combine(two, _mm_movehdup_ps(two))[0];
}

inline float sum(Floats x) {
  return fold(x, [](auto a, auto b) { return a + b; });
}

inline float maximum(Floats x) {
  return fold(x, [](auto a, auto b) { return a > b ? a : b; });
}

using Four = float __attribute__((vector_size(16)));

// The sums of four vectors, for less than twice what one costs: their lanes are interleaved as they are added.
inline Four sum_each(Floats a, Floats b, Floats c, Floats d) {
#if defined(__AVX512F__)
  const __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b) + _mm512_unpackhi_ps(a, b));
  const __m512d cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d) + _mm512_unpackhi_ps(c, d));
  const __m512 all = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)) + _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
  const __m256 half = _mm512_castps512_ps256(all) + _mm512_extractf32x8_ps(all, 1);
#else
  const __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b) + _mm256_unpackhi_ps(a, b));
  const __m256d cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d) + _mm256_unpackhi_ps(c, d));
  const __m256 half = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)) + _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd));
#endif
  return _mm256_castps256_ps128(half) + _mm256_extractf128_ps(half, 1);
}

// e^x to 2 units in the last place; 0 below -87.3, where float32 would be subnormal. NaN stays NaN.
inline Floats exponential(Floats x) {
  constexpr float kLog2e = 1.44269504088896341f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kMost = 88.37f, kLeast = -87.33f;
  const Floats bounded = x > kMost ? spread(kMost) : (x < kLeast ? spread(kLeast) : x);
  const Ints power = rounded(bounded * kLog2e);
  const Floats whole = __builtin_convertvector(power, Floats);
  Floats rest = fused(whole, spread(-kLn2High), bounded);
  rest = fused(whole, spread(-kLn2Low), rest);
  // Cephes' polynomial for e^x - 1 - x over x², |x| <= ln 2 / 2.
  Floats series = spread(1.9875691500e-4f);
  for (const float coefficient :
       {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f}) {
    series = fused(series, rest, spread(coefficient));
  }
  const Floats result = fused(series, rest * rest, rest) + 1.0f;
  const Floats scale = from_bits((power + 127) << 23);
  return x < kLeast ? Floats{} : result * scale;
}

// bfloat16 is the upper half of float32.
inline Floats floats(const uint16_t* from) {
#if defined(__AVX512F__)
  return from_bits(reinterpret_cast<Ints>(_mm512_cvtepu16_epi32(load<__m256i>(from))) << 16);
#else
  return from_bits(reinterpret_cast<Ints>(_mm256_cvtepu16_epi32(load<__m128i>(from))) << 16);
#endif
}

// Nearest bfloat16, halves to even.
inline Halves floats_to_bfloat16(Floats x) {
  const Ints word = bits(x);
  const Ints nearest = (word + 0x7fff + ((word >> 16) & 1)) >> 16;
  const Ints quiet_nan = (word >> 16) | 0x40;
  return __builtin_convertvector((x != x) ? quiet_nan : nearest, Halves);
}

constexpr int64_t rounded_up(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

}  // namespace dragoman

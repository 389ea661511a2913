// Vectors of numbers, as wide as the instruction set has them; everything else is written on top of these.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

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

constexpr float kLeastExponent = -87.0f;  // of a power of e that is not subnormal

// e^x for x <= 0, to a few units in the last place; e^-87 for all below. NaN stays NaN.
//
// 2^(x log2 e) is a power of two, put together from its bits, times a polynomial in the rest. Half as
// many instructions as a general exponential: it is most of what reading a row of logits costs.
inline Floats exponential_of_negative(Floats x) {
  constexpr float kLog2e = 1.44269504088896341f;
  constexpr float kRounder = 3 << 22;  // added to a small number, leaves its integer in the last bits
  const Floats bounded = larger(spread(kLeastExponent), x);
  const Floats shifted = fused(bounded, spread(kLog2e), spread(kRounder));
  const Floats rest = fused(bounded, spread(kLog2e), spread(kRounder) - shifted);
  // Chebyshev's polynomial for 2^rest, |rest| <= 1/2.
  Floats power = spread(1.33908634e-3f);
  for (const float coefficient : {9.67603192e-3f, 5.55035711e-2f, 2.40221075e-1f, 6.93147188e-1f, 1.00000008f}) {
    power = fused(power, rest, spread(coefficient));
  }
  return from_bits(bits(power) + (bits(shifted) << 23));
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

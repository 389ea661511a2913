// SIMD vectors as wide as the instruction set's registers. All other kernels are written with these functions.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

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

// Loads kLanes numbers as float32.
inline Floats floats(const float* from) { return load<Floats>(from); }
inline Floats broadcast(float number) { return number - Floats{}; }

inline Ints bits(Floats x) { return reinterpret_cast<Ints>(x); }
inline Floats from_bits(Ints x) { return reinterpret_cast<Floats>(x); }

// a · b + c, rounded once.
inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#else
  return _mm256_fmadd_ps(a, b, c);
#endif
}

inline Floats maximum(Floats a, Floats b) { return a > b ? a : b; }

// The nearest integers; ties round to even.
inline Ints round_to_ints(Floats x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Ints>(_mm512_cvtps_epi32(x));
#else
  return reinterpret_cast<Ints>(_mm256_cvtps_epi32(x));
#endif
}

// Combines all lanes into one number: the upper half with the lower half, until one lane is left.
template <typename Combine>
inline float reduce(Floats x, Combine combine) {
#if defined(__AVX512F__)
  const __m256 eight = combine(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
#else
  const __m256 eight = x;
#endif
  const __m128 four = combine(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = combine(four, _mm_movehl_ps(four, four));
  return combine(two, _mm_movehdup_ps(two))[0];
}

inline float reduce_sum(Floats x) {
  return reduce(x, [](auto a, auto b) { return a + b; });
}

inline float reduce_max(Floats x) {
  return reduce(x, [](auto a, auto b) { return a > b ? a : b; });
}

using Four = float __attribute__((vector_size(16)));

// The sums of four vectors. Interleaving their lanes makes four sums cost less than twice as much as one.
inline Four reduce_sums(Floats a, Floats b, Floats c, Floats d) {
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

constexpr float kMinExponent = -87.0f;  // e^x is subnormal below

// e^x for x <= 0, accurate to a few units in the last place; e^-87 for x < -87. NaN stays NaN.
//
// Computes 2^(x log2 e) as 2^n (the bits of the exponent) times a polynomial in the remainder. A general exponential
// takes twice as many instructions, and exponentials dominate the cost of a row of logits.
inline Floats exp_of_negative(Floats x) {
  constexpr float kLog2e = 1.44269504088896341f;
  constexpr float kRounder = 3 << 22;  // adding this to a small number leaves its integer part in the last bits
  const Floats bounded = maximum(broadcast(kMinExponent), x);
  const Floats shifted = multiply_add(bounded, broadcast(kLog2e), broadcast(kRounder));
  const Floats rest = multiply_add(bounded, broadcast(kLog2e), broadcast(kRounder) - shifted);
  // Chebyshev polynomial for 2^rest, |rest| <= 1/2.
  Floats power = broadcast(1.33908634e-3f);
  for (const float coefficient : {9.67603192e-3f, 5.55035711e-2f, 2.40221075e-1f, 6.93147188e-1f, 1.00000008f}) {
    power = multiply_add(power, rest, broadcast(coefficient));
  }
  return from_bits(bits(power) + (bits(shifted) << 23));
}

// bfloat16 is the upper half of a float32.
inline Floats floats(const uint16_t* from) {
#if defined(__AVX512F__)
  return from_bits(reinterpret_cast<Ints>(_mm512_cvtepu16_epi32(load<__m256i>(from))) << 16);
#else
  return from_bits(reinterpret_cast<Ints>(_mm256_cvtepu16_epi32(load<__m128i>(from))) << 16);
#endif
}

// The nearest bfloat16; ties round to even.
inline Halves to_bfloat16(Floats x) {
  const Ints word = bits(x);
  const Ints nearest = (word + 0x7fff + ((word >> 16) & 1)) >> 16;
  const Ints quiet_nan = (word >> 16) | 0x40;
  return __builtin_convertvector((x != x) ? quiet_nan : nearest, Halves);
}

// Covers 0 … count - 1 with blocks of the given sizes, each as often as it fits, and calls body(size, first) for each.
// The size is a std::integral_constant.
template <int... kSizes, typename Body>
void for_each_block(int64_t count, const Body& body) {
  int64_t first = 0;
  const auto cover = [&](auto size) {
    for (; first + size <= count; first += size) body(size, first);
  };
  (cover(std::integral_constant<int, kSizes>{}), ...);
}

constexpr int64_t round_up(int64_t size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// A training step keeps tensors in float32 or bfloat16 and computes in float32. The functions below take either type.

inline void store_floats(float* to, Floats x) { store(to, x); }

inline void store_floats(uint16_t* to, Floats x) {
#if defined(__AVX512BF16__)
  store(to, _mm512_cvtneps_pbh(x));
#else
  store(to, to_bfloat16(x));
#endif
}

inline float to_float(const float* from) { return *from; }
inline float to_float(const int8_t* from) { return *from; }
inline float to_float(const uint16_t* from) { return from_bits(Ints{*from << 16})[0]; }

// Loads the first `count` numbers, and fills the other lanes with `rest`.
template <typename Number>
inline Floats load_partial(const Number* from, int64_t count, float rest) {
  if (count >= kLanes) return floats(from);
  float vector[kLanes];
  std::fill(vector, vector + kLanes, rest);
  for (int64_t i = 0; i < count; ++i) vector[i] = to_float(from + i);
  return floats(vector);
}

template <typename Number>
inline void store_partial(Number* to, int64_t count, Floats x) {
  if (count >= kLanes) return store_floats(to, x);
  Number vector[kLanes];
  store_floats(vector, x);
  std::copy(vector, vector + count, to);
}

// Calls body with a null pointer to the number type, from which it deduces the type.
template <typename Body>
void with_number_type(bool is_bfloat16, const Body& body) {
  is_bfloat16 ? body(static_cast<uint16_t*>(nullptr)) : body(static_cast<float*>(nullptr));
}

}  // namespace dragoman

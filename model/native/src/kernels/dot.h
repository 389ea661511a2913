// Dot products of one instruction, for each precision and instruction set, and the panels that they read weights from.
//
// A Dot multiplies kGroup neighbouring inputs of one row with the weights of kLanes outputs for these inputs, and adds
// the products to kLanes sums. It also defines how inputs and weights are rounded.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/simd.h"

namespace dragoman {

enum class Precision : int32_t { float32 = 0, bfloat16 = 1, int8 = 2 };

// A panel is kPanel neighbouring outputs, kVectors vectors, which are computed side by side.
constexpr int kVectors = kLanes == 16 ? 4 : 2;
constexpr int kPanel = kVectors * kLanes;

struct Float32Dot {
  using Input = float;
  using Weight = float;
  using Sums = Floats;
  static constexpr int kGroup = 1;
  static constexpr bool kHasScales = false;

  static Floats round_inputs(Floats x, float) { return x; }
  static Weight round_weight(float x, float) { return x; }
  static Floats load_weights(const Weight* from) { return floats(from); }
  static Floats broadcast_group(const Input* from) { return broadcast(*from); }
  static Sums add(Sums sums, Floats inputs, Floats weights) { return multiply_add(inputs, weights, sums); }
};

#if defined(__AVX512BF16__) && defined(__AVX512VNNI__)

struct BFloat16Dot {
  using Input = uint16_t;
  using Weight = uint16_t;
  using Sums = Floats;
  static constexpr int kGroup = 2;
  static constexpr bool kHasScales = false;

  static Halves round_inputs(Floats x, float) { return to_bfloat16(x); }
  static Weight round_weight(float x, float) { return to_bfloat16(broadcast(x))[0]; }
  static __m512i load_weights(const Weight* from) { return _mm512_loadu_si512(from); }
  static __m512i broadcast_group(const Input* from) { return _mm512_set1_epi32(load<int32_t>(from)); }
  static Sums add(Sums sums, __m512i inputs, __m512i weights) {
    return _mm512_dpbf16_ps(sums, reinterpret_cast<__m512bh>(inputs), reinterpret_cast<__m512bh>(weights));
  }
};

#else

struct BFloat16Dot : Float32Dot {
  using Weight = uint16_t;

  static Floats round_inputs(Floats x, float) {
    const Halves halves = to_bfloat16(x);
    return floats(reinterpret_cast<const uint16_t*>(&halves));
  }
  static Weight round_weight(float x, float) { return to_bfloat16(broadcast(x))[0]; }
  static Floats load_weights(const Weight* from) { return floats(from); }
};

#endif

struct Int8Dot {
  using Weight = int8_t;
  static constexpr bool kHasScales = true;

  static Weight round_weight(float x, float scale) { return static_cast<Weight>(std::nearbyint(x / scale)); }

#if defined(__AVX512BF16__) && defined(__AVX512VNNI__)
  // vpdpbusd needs one unsigned factor: inputs are stored with an offset of 128, and sums start from -128 times the sum
  // of an output's weights.
  using Input = uint8_t;
  using Sums = __m512i;
  static constexpr int kGroup = 4, kInputOffset = 128;

  static Bytes round_inputs(Floats x, float scale) {
    return __builtin_convertvector(round_to_ints(x / scale) + kInputOffset, Bytes);
  }
  static __m512i load_weights(const Weight* from) { return _mm512_loadu_si512(from); }
  static __m512i broadcast_group(const Input* from) { return _mm512_set1_epi32(load<int32_t>(from)); }
  static Sums add(Sums sums, __m512i inputs, __m512i weights) { return _mm512_dpbusd_epi32(sums, inputs, weights); }
#else
  // Inputs have 16 bits, because AVX2's instruction for bytes would overflow its 16-bit sums.
  using Input = int16_t;
  using Sums = __m256i;
  static constexpr int kGroup = 2, kInputOffset = 0;

  static Shorts round_inputs(Floats x, float scale) {
    return __builtin_convertvector(round_to_ints(x / scale), Shorts);
  }
  static __m256i load_weights(const Weight* from) { return _mm256_cvtepi8_epi16(load<__m128i>(from)); }
  static __m256i broadcast_group(const Input* from) { return _mm256_set1_epi32(load<int32_t>(from)); }
  static Sums add(Sums sums, __m256i inputs, __m256i weights) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(inputs, weights));
  }
#endif
};

inline Floats as_floats(Floats sums) { return sums; }
inline Floats as_floats(Int8Dot::Sums sums) { return __builtin_convertvector(reinterpret_cast<Ints>(sums), Floats); }

template <typename Visitor>
void with_dot(Precision precision, Visitor visit) {
  switch (precision) {
    case Precision::float32: return visit(Float32Dot{});
    case Precision::bfloat16: return visit(BFloat16Dot{});
    case Precision::int8: return visit(Int8Dot{});
  }
}

}  // namespace dragoman

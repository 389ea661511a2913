// One instruction's worth of a matrix product, for each kind of number and each instruction set.
//
// A Dot multiplies kGroup neighbouring inputs of one row with the weights that kLanes outputs have for
// them, and adds the products to kLanes sums. It also says how inputs and weights are rounded.
#pragma once

#include <cmath>

#include "kernels/simd.h"

namespace dragoman {

struct Float32Dot {
  using Input = float;
  using Weight = float;
  using Sums = Floats;
  static constexpr int kGroup = 1;
  static constexpr bool kHasScales = false;

  static Floats inputs(Floats x, float) { return x; }
  static Weight weight(float x, float) { return x; }
  static Floats weights(const Weight* from) { return floats(from); }
  static Floats spread(const Input* from) { return dragoman::spread(*from); }
  static Sums add(Sums sums, Floats inputs, Floats weights) { return fused(inputs, weights, sums); }
};

#if defined(__AVX512BF16__) && defined(__AVX512VNNI__)

struct BFloat16Dot {
  using Input = uint16_t;
  using Weight = uint16_t;
  using Sums = Floats;
  static constexpr int kGroup = 2;
  static constexpr bool kHasScales = false;

  static Halves inputs(Floats x, float) { return floats_to_bfloat16(x); }
  static Weight weight(float x, float) { return floats_to_bfloat16(dragoman::spread(x))[0]; }
  static __m512i weights(const Weight* from) { return _mm512_loadu_si512(from); }
  static __m512i spread(const Input* from) { return _mm512_set1_epi32(load<int32_t>(from)); }
  static Sums add(Sums sums, __m512i inputs, __m512i weights) {
    return _mm512_dpbf16_ps(sums, reinterpret_cast<__m512bh>(inputs), reinterpret_cast<__m512bh>(weights));
  }
};

// The instruction wants one factor without a sign: inputs are stored 128 too large, and sums start from
// -128 times the sum of an output's weights.
struct Int8Dot {
  using Input = uint8_t;
  using Weight = int8_t;
  using Sums = __m512i;
  static constexpr int kGroup = 4;
  static constexpr bool kHasScales = true;
  static constexpr int kInputOffset = 128;

  static Bytes inputs(Floats x, float scale) {
    return __builtin_convertvector(rounded(x / scale) + kInputOffset, Bytes);
  }
  static Weight weight(float x, float scale) { return static_cast<Weight>(std::nearbyint(x / scale)); }
  static __m512i weights(const Weight* from) { return _mm512_loadu_si512(from); }
  static __m512i spread(const Input* from) { return _mm512_set1_epi32(load<int32_t>(from)); }
  static Sums add(Sums sums, __m512i inputs, __m512i weights) { return _mm512_dpbusd_epi32(sums, inputs, weights); }
};

#else

struct BFloat16Dot {
  using Input = float;
  using Weight = uint16_t;
  using Sums = Floats;
  static constexpr int kGroup = 1;
  static constexpr bool kHasScales = false;

  static Floats inputs(Floats x, float) {
    const Halves halves = floats_to_bfloat16(x);
    return floats(reinterpret_cast<const uint16_t*>(&halves));
  }
  static Weight weight(float x, float) { return floats_to_bfloat16(dragoman::spread(x))[0]; }
  static Floats weights(const Weight* from) { return floats(from); }
  static Floats spread(const Input* from) { return dragoman::spread(*from); }
  static Sums add(Sums sums, Floats inputs, Floats weights) { return fused(inputs, weights, sums); }
};

// Products of bytes would overflow the 16 bits that AVX2 has for their sums; 16-bit inputs do not.
struct Int8Dot {
  using Input = int16_t;
  using Weight = int8_t;
  using Sums = __m256i;
  static constexpr int kGroup = 2;
  static constexpr bool kHasScales = true;
  static constexpr int kInputOffset = 0;

  static Shorts inputs(Floats x, float scale) { return __builtin_convertvector(rounded(x / scale), Shorts); }
  static Weight weight(float x, float scale) { return static_cast<Weight>(std::nearbyint(x / scale)); }
  static __m256i weights(const Weight* from) { return _mm256_cvtepi8_epi16(load<__m128i>(from)); }
  static __m256i spread(const Input* from) { return _mm256_set1_epi32(load<int32_t>(from)); }
  static Sums add(Sums sums, __m256i inputs, __m256i weights) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(inputs, weights));
  }
};

#endif

inline Floats as_floats(Floats sums) { return sums; }
inline Floats as_floats(Int8Dot::Sums sums) { return __builtin_convertvector(reinterpret_cast<Ints>(sums), Floats); }

}  // namespace dragoman

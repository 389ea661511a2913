// One instruction's worth of a matrix product, for each kind of number and each instruction set.
//
// A Dot multiplies kGroup neighbouring inputs of one row with the weights that kLanes outputs have for
// them, and adds the products to kLanes sums.
#pragma once

#include "simd.h"

namespace dragoman {

struct Float32Dot {
  using Input = float;
  using Weight = float;
  using Sums = Floats;
  using Weights = Floats;
  using Spread = Floats;
  static constexpr int kGroup = 1;

  static Weights weights(const Weight* from) { return floats(from); }
  static Spread spread(const Input* from) { return dragoman::spread(*from); }
  static Sums add(Sums sums, Spread inputs, Weights weights) { return fused(inputs, weights, sums); }
};

#if defined(__AVX512BF16__) && defined(__AVX512VNNI__)

struct BFloat16Dot {
  using Input = uint16_t;
  using Weight = uint16_t;
  using Sums = Floats;
  using Weights = __m512i;
  using Spread = __m512i;
  static constexpr int kGroup = 2;

  static Weights weights(const Weight* from) { return _mm512_loadu_si512(from); }
  static Spread spread(const Input* from) { return _mm512_set1_epi32(load<int32_t>(from)); }
  static Sums add(Sums sums, Spread inputs, Weights weights) {
    return _mm512_dpbf16_ps(sums, reinterpret_cast<__m512bh>(inputs), reinterpret_cast<__m512bh>(weights));
  }
};

// The instruction wants one factor without a sign: inputs are stored 128 too large, and sums start from
// -128 times the sum of an output's weights.
struct Int8Dot {
  using Input = uint8_t;
  using Weight = int8_t;
  using Sums = __m512i;
  using Weights = __m512i;
  using Spread = __m512i;
  static constexpr int kGroup = 4;
  static constexpr int kInputOffset = 128;

  static Weights weights(const Weight* from) { return _mm512_loadu_si512(from); }
  static Spread spread(const Input* from) { return _mm512_set1_epi32(load<int32_t>(from)); }
  static Sums add(Sums sums, Spread inputs, Weights weights) { return _mm512_dpbusd_epi32(sums, inputs, weights); }
};

#else

struct BFloat16Dot {
  using Input = float;
  using Weight = uint16_t;
  using Sums = Floats;
  using Weights = Floats;
  using Spread = Floats;
  static constexpr int kGroup = 1;

  static Weights weights(const Weight* from) { return floats(from); }
  static Spread spread(const Input* from) { return dragoman::spread(*from); }
  static Sums add(Sums sums, Spread inputs, Weights weights) { return fused(inputs, weights, sums); }
};

// Products of bytes would overflow the 16 bits that AVX2 has for their sums; 16-bit inputs do not.
struct Int8Dot {
  using Input = int16_t;
  using Weight = int8_t;
  using Sums = Ints;
  using Weights = __m256i;
  using Spread = __m256i;
  static constexpr int kGroup = 2;
  static constexpr int kInputOffset = 0;

  static Weights weights(const Weight* from) { return _mm256_cvtepi8_epi16(load<__m128i>(from)); }
  static Spread spread(const Input* from) { return _mm256_set1_epi32(load<int32_t>(from)); }
  static Sums add(Sums sums, Spread inputs, Weights weights) {
    return sums + reinterpret_cast<Ints>(_mm256_madd_epi16(inputs, weights));
  }
};

#endif

}  // namespace dragoman

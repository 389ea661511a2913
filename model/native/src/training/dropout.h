// Dropout (https://jmlr.org/papers/v15/srivastava14a.html) whose mask is never kept: it follows from seed and place.
#pragma once

#include <cstdint>

#include "kernels/simd.h"

namespace dragoman {

using Words = uint32_t __attribute__((vector_size(kLanes * 4)));

struct Dropout {
  uint64_t seed;
  uint32_t threshold;  // rate · 2³²; 0 keeps everything
  float scale;         // 1 / (1 − rate)

  // What the numbers at index … index + kLanes - 1 are multiplied by: 0 or the scale.
  Floats factors(uint32_t index) const {
    Words places;
    for (int lane = 0; lane < kLanes; ++lane) places[lane] = lane;
    const Words drawn = mixed(places + index);
    return drawn >= threshold ? spread(scale) : Floats{};
  }

 private:
  // The integer hash lowbias32 (https://nullprogram.com/blog/2018/07/31/), with half of the seed before it
  // and half of it within.
  Words mixed(Words x) const {
    x += static_cast<uint32_t>(seed);
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x += static_cast<uint32_t>(seed >> 32);
    x *= 0x846ca68bu;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    return x;
  }
};

}  // namespace dragoman

// The random numbers of sampling: a function of seed, draw and position, so that they depend on nothing else.
#pragma once

#include <cstdint>

namespace dragoman {

// In [0, 1); model/decoding/random_numbers.py has the same numbers. SplitMix64 (Steele et al. 2014,
// https://doi.org/10.1145/2660193.2660195), at a place of its sequence that belongs to draw and position.
inline float uniform_number(uint64_t seed, uint32_t draw, uint32_t position) {
  uint64_t z = seed + ((uint64_t{draw} << 32) + position + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return static_cast<float>(z >> 40) / (1 << 24);
}

}  // namespace dragoman

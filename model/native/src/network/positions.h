// Tables for positions: sinusoids, rotations (RoPE) and biases by distance.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "network/config.h"

namespace dragoman {

// [positions][width] sines and cosines (https://arxiv.org/abs/1706.03762, section 3.5).
inline std::vector<float> sinusoids(const NetworkConfig& config) {
  const int positions = config.max_positions, width = config.model_dim;
  const bool has_halves = config.has_sinusoid_halves != 0;
  std::vector<float> table(int64_t{positions} * width);
  const int span = config.has_sinusoid_endpoint ? std::max(width - 2, 1) : width;
  const float rate = static_cast<float>(-std::log(10000.0) / span);
  for (int pair = 0; pair < width / 2; ++pair) {
    const float frequency = std::exp(static_cast<float>(2 * pair) * rate);
    const int sine = has_halves ? pair : 2 * pair, cosine = has_halves ? pair + width / 2 : 2 * pair + 1;
    for (int position = 0; position < positions; ++position) {
      const float angle = static_cast<float>(position + config.sinusoid_offset) * frequency;
      table[int64_t{position} * width + sine] = std::sin(angle);
      table[int64_t{position} * width + cosine] = std::cos(angle);
    }
  }
  return table;
}

// The cosine and sine of each pair's angle (RoPE, https://arxiv.org/abs/2104.09864), as [positions][dimension / 2][2].
inline std::vector<float> rope_table(int positions, int dimension) {
  std::vector<float> table(int64_t{positions} * dimension);
  for (int pair = 0; pair < dimension / 2; ++pair) {
    const float frequency = static_cast<float>(std::pow(10000.0, -2.0 * pair / dimension));
    for (int position = 0; position < positions; ++position) {
      const float angle = static_cast<float>(position) * frequency;
      const int64_t index = int64_t{position} * dimension + 2 * pair;
      table[index] = std::cos(angle);
      table[index + 1] = std::sin(angle);
    }
  }
  return table;
}

// Rotates pairs of neighbouring numbers of every head by the angles of one position, a row of the RoPE table.
inline void rotate(float* heads, int count, int width, int dimension, const float* angles) {
  for (int head = 0; head < count; ++head) {
    float* numbers = heads + int64_t{head} * width;
    for (int i = 0; i < dimension; i += 2) {
      const float even = numbers[i], odd = numbers[i + 1], cosine = angles[i], sine = angles[i + 1];
      numbers[i] = even * cosine - odd * sine;
      numbers[i + 1] = even * sine + odd * cosine;
    }
  }
}

// The bucket that T5 assigns to a distance, key position - query position (https://arxiv.org/abs/1910.10683).
inline int relative_bucket(int distance, int buckets, int max_distance, bool is_bidirectional) {
  int offset = 0, magnitude = distance < 0 ? -distance : 0;
  if (is_bidirectional) {
    buckets /= 2;
    offset = distance > 0 ? buckets : 0;
    magnitude = std::abs(distance);
  }
  const int exact = buckets / 2;
  if (magnitude < exact) return offset + magnitude;
  const float growth = std::log(static_cast<float>(magnitude) / static_cast<float>(exact)) /
                       static_cast<float>(std::log(static_cast<double>(max_distance) / exact));
  const int far = exact + static_cast<int>(growth * static_cast<float>(buckets - exact));
  return offset + std::min(far, buckets - 1);
}

// The biases of all distances -(positions - 1) … positions - 1, as [heads][2 · positions - 1].
inline std::vector<float> distance_biases(const NetworkConfig& config, const std::vector<float>& bucket_biases,
                                          bool is_bidirectional) {
  const int max_distance = config.max_positions - 1, span = 2 * max_distance + 1;
  std::vector<float> table(int64_t{config.num_heads} * span);
  for (int distance = -max_distance; distance <= max_distance; ++distance) {
    const int bucket =
        relative_bucket(distance, config.relative_buckets, config.relative_max_distance, is_bidirectional);
    for (int head = 0; head < config.num_heads; ++head) {
      table[int64_t{head} * span + max_distance + distance] = bucket_biases[int64_t{bucket} * config.num_heads + head];
    }
  }
  return table;
}

}  // namespace dragoman

// How order enters the network: tables of sinusoids, rotations and biases by distance.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "network/network.h"

namespace dragoman {

// Vaswani et al. 2017, section 3.5: [positions][width].
inline std::vector<float> sinusoids(int positions, int width, bool has_halves) {
  std::vector<float> table(int64_t{positions} * width);
  const float rate = static_cast<float>(-std::log(10000.0) / width);
  for (int pair = 0; pair < width / 2; ++pair) {
    const float frequency = std::exp(static_cast<float>(2 * pair) * rate);
    const int sine = has_halves ? pair : 2 * pair, cosine = has_halves ? pair + width / 2 : 2 * pair + 1;
    for (int position = 0; position < positions; ++position) {
      const float angle = static_cast<float>(position) * frequency;
      table[int64_t{position} * width + sine] = std::sin(angle);
      table[int64_t{position} * width + cosine] = std::cos(angle);
    }
  }
  return table;
}

// Cosine and sine of every pair's angle (RoPE, https://arxiv.org/abs/2104.09864): [positions][dimension / 2][2].
inline std::vector<float> rotations(int positions, int dimension) {
  std::vector<float> table(int64_t{positions} * dimension);
  for (int pair = 0; pair < dimension / 2; ++pair) {
    const float frequency = static_cast<float>(std::pow(10000.0, -2.0 * pair / dimension));
    for (int position = 0; position < positions; ++position) {
      const float angle = static_cast<float>(position) * frequency;
      float* place = table.data() + int64_t{position} * dimension + 2 * pair;
      place[0] = std::cos(angle);
      place[1] = std::sin(angle);
    }
  }
  return table;
}

// Turns neighbouring numbers of every head by the angles of a position.
inline void rotate(float* heads, int count, int width, int dimension, const float* turns) {
  for (int head = 0; head < count; ++head) {
    float* numbers = heads + int64_t{head} * width;
    for (int i = 0; i < dimension; i += 2) {
      const float even = numbers[i], odd = numbers[i + 1], cosine = turns[i], sine = turns[i + 1];
      numbers[i] = even * cosine - odd * sine;
      numbers[i + 1] = even * sine + odd * cosine;
    }
  }
}

// T5's bucket of a distance, key position - query position (https://arxiv.org/abs/1910.10683).
inline int relative_bucket(int distance, int buckets, int max_distance, bool is_bidirectional) {
  int offset = 0, reach = distance < 0 ? -distance : 0;
  if (is_bidirectional) {
    buckets /= 2;
    offset = distance > 0 ? buckets : 0;
    reach = std::abs(distance);
  }
  const int exact = buckets / 2;
  if (reach < exact) return offset + reach;
  const float growth = std::log(static_cast<float>(reach) / static_cast<float>(exact)) /
                       static_cast<float>(std::log(static_cast<double>(max_distance) / exact));
  const int far = exact + static_cast<int>(growth * static_cast<float>(buckets - exact));
  return offset + std::min(far, buckets - 1);
}

// Biases of all distances -(positions - 1) … positions - 1, a head after the other: [heads][2 · positions - 1].
inline std::vector<float> distance_biases(const NetworkConfig& config, const std::vector<float>& bucket_biases,
                                          bool is_bidirectional) {
  const int reach = config.max_positions - 1, span = 2 * reach + 1;
  std::vector<float> table(int64_t{config.num_heads} * span);
  for (int distance = -reach; distance <= reach; ++distance) {
    const int bucket =
        relative_bucket(distance, config.relative_buckets, config.relative_max_distance, is_bidirectional);
    for (int head = 0; head < config.num_heads; ++head) {
      table[int64_t{head} * span + reach + distance] = bucket_biases[int64_t{bucket} * config.num_heads + head];
    }
  }
  return table;
}

}  // namespace dragoman

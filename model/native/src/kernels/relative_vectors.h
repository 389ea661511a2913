// Vectors that join the keys and values of self-attention by their distance from the query: the score of a key is
// scale · q · (k + R_K), and its value v + R_V (https://arxiv.org/abs/1803.02155).
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/buffer.h"
#include "kernels/simd.h"

namespace dragoman {

struct RelativeVectors {
  Buffer<float> keys, values;  // [2 · furthest + 1][head width]; empty if positions are not of this kind
  int furthest = 0;

  bool is_empty() const { return keys.is_empty(); }

  // Writes scale · q · R_K for positions 0 … count - 1, as [heads][count].
  void score(const Heads& heads, const float* query, int position, int count, float* scores) const {
    for (int head = 0; head < heads.count; ++head, query += heads.width, scores += count) {
      for (int i = 0; i < count; ++i) {
        const int64_t row = row_of(i - position);
        const float* key = keys.data() + row * heads.width;
        scores[i] = i > 0 && row == row_of(i - 1 - position)
                        ? scores[i - 1]
                        : heads.scale * reduce_sum(dot_partial<0>(query, key, heads.width));
      }
    }
  }

  // Adds the sum of weight · R_V over positions 0 … count - 1 to the output of every head. The weights of the heads
  // are `stride` apart.
  void add(const Heads& heads, const float* weights, int64_t stride, int position, int count, float* output) const {
    for (int head = 0; head < heads.count; ++head, weights += stride, output += heads.width) {
      float sum = 0.0f;
      for (int i = 0; i < count; ++i) {
        const int64_t row = row_of(i - position);
        sum += weights[i];
        if (i + 1 < count && row == row_of(i + 1 - position)) continue;
        const float* value = values.data() + row * heads.width;
        for (int v = 0; v < heads.width; v += kLanes) {
          store(output + v, multiply_add(broadcast(sum), floats(value + v), floats(output + v)));
        }
        sum = 0.0f;
      }
    }
  }

 private:
  int64_t row_of(int distance) const { return std::clamp(distance, -furthest, furthest) + furthest; }
};

}  // namespace dragoman

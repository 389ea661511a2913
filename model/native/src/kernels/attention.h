// Attention of one query row to positions that lie anywhere in memory: softmax(scale · q · k) · v for each head
// (https://arxiv.org/abs/1706.03762, section 3.2).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/simd.h"

namespace dragoman {

struct Heads {
  int count;
  int width;    // the head dimension, padded with zeros to a multiple of kLanes
  float scale;  // factor of q · k

  int64_t total_width() const { return int64_t{count} * width; }
};

// The bias that a head adds to the score of a position: table[head][start + position].
struct DistanceBias {
  const float* table = nullptr;  // null: no bias
  int64_t head_stride = 0;
  int start = 0;

  float at(int head, int position) const { return table[head * head_stride + start + position]; }
};

// The vectors of a head: kHeadVectors, a constant for the usual widths, unless that is 0.
template <int kHeadVectors>
constexpr int head_vectors(int width) {
  return kHeadVectors > 0 ? kHeadVectors : width / kLanes;
}

template <int kHeadVectors, typename Number>
inline Floats dot_partial(const float* a, const Number* b, int width) {
  Floats sums = {};
  for (int v = 0; v < head_vectors<kHeadVectors>(width); ++v) {
    sums = multiply_add(floats(a + v * kLanes), floats(b + v * kLanes), sums);
  }
  return sums;
}

// Softmax of `count` scores, in place. The array must extend to a whole vector, whose rest is overwritten.
inline void softmax(float* scores, int count) {
  const int padded = static_cast<int>(round_up(count, kLanes));
  std::fill(scores + count, scores + padded, -INFINITY);
  Floats most = broadcast(-INFINITY);
  for (int i = 0; i < padded; i += kLanes) most = maximum(floats(scores + i), most);
  const Floats highest = broadcast(reduce_max(most));
  Floats sums = {};
  for (int i = 0; i < padded; i += kLanes) {
    const Floats weights = exp_of_negative(floats(scores + i) - highest);
    store(scores + i, weights);
    sums += weights;
  }
  const float factor = 1.0f / reduce_sum(sums);
  for (int i = 0; i < padded; i += kLanes) store(scores + i, floats(scores + i) * factor);
}

// output += weight · value, head by head.
template <int kHeadVectors, typename Number>
inline void add_values(const Heads& heads, const float* scores, int64_t stride, const Number* value, float* output) {
  const int width = heads.width;
  for (int head = 0; head < heads.count; ++head, scores += stride, value += width, output += width) {
    const Floats weight = broadcast(*scores);
    for (int v = 0; v < head_vectors<kHeadVectors>(width); ++v) {
      float* out = output + v * kLanes;
      store(out, multiply_add(weight, floats(value + v * kLanes), floats(out)));
    }
  }
}

// Keys and values are scattered over the KV pool, where only software prefetching loads them in time.
constexpr int kPositionsAhead = 2;

template <typename Number>
inline void prefetch(const Number* numbers, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(Number);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(numbers + i);
}

// Writes q · k of every head for one position; the scores of the heads are `stride` apart.
template <int kHeadVectors, typename Number>
inline void score_position(const Heads& heads, const float* query, const Number* key, int64_t stride, float* scores) {
  const int width = heads.width;
  const auto partial = [&](int head) {
    return dot_partial<kHeadVectors>(query + int64_t{head} * width, key + int64_t{head} * width, width);
  };
  int head = 0;
  for (; head + 4 <= heads.count; head += 4) {
    const Four sums = reduce_sums(partial(head), partial(head + 1), partial(head + 2), partial(head + 3));
    for (int i = 0; i < 4; ++i) scores[(head + i) * stride] = sums[i];
  }
  for (; head < heads.count; ++head) scores[head * stride] = reduce_sum(partial(head));
}

template <int kHeadVectors, typename Keys, typename Values>
void attend_with(const Heads& heads, const float* query, int count, Keys keys, Values values, const DistanceBias& bias,
                 float* scores, float* output) {
  const int64_t stride = round_up(count, kLanes);
  for (int i = 0; i < count; ++i) {
    prefetch(keys(std::min(i + kPositionsAhead, count - 1)), heads.total_width());
    score_position<kHeadVectors>(heads, query, keys(i), stride, scores + i);
  }
  for (int head = 0; head < heads.count; ++head) {
    float* head_scores = scores + head * stride;
    for (int i = 0; i < count; ++i) {
      head_scores[i] *= heads.scale;
      if (bias.table != nullptr) head_scores[i] += bias.at(head, i);
    }
  }
  for (int head = 0; head < heads.count; ++head) softmax(scores + head * stride, count);
  std::fill(output, output + heads.total_width(), 0.0f);
  for (int i = 0; i < count; ++i) {
    prefetch(values(std::min(i + kPositionsAhead, count - 1)), heads.total_width());
    add_values<kHeadVectors>(heads, scores + i, stride, values(i), output);
  }
}

// Attends with all heads of a position at once, because positions may lie far from each other in memory.
//
// Args:
//   query: All heads of one row.
//   count: Number of positions to attend to, at least 1.
//   keys, values: Functions from a position to a pointer to its numbers, all heads, float32 or bfloat16.
//   scores: Scratch memory for `count` numbers of each head, rounded up to whole vectors.
//   output: Receives the concatenated results of all heads.
//   average: If not null, receives the attention weights of the positions, averaged over heads.
template <typename Keys, typename Values>
void attend(const Heads& heads, const float* query, int count, Keys keys, Values values, const DistanceBias& bias,
            float* scores, float* output, float* average) {
  switch (heads.width / kLanes) {
    case 2: attend_with<2>(heads, query, count, keys, values, bias, scores, output); break;
    case 4: attend_with<4>(heads, query, count, keys, values, bias, scores, output); break;
    case 8: attend_with<8>(heads, query, count, keys, values, bias, scores, output); break;
    default: attend_with<0>(heads, query, count, keys, values, bias, scores, output);
  }
  if (average == nullptr) return;
  const int64_t stride = round_up(count, kLanes);
  for (int i = 0; i < count; ++i) {
    average[i] = 0.0f;
    for (int head = 0; head < heads.count; ++head) average[i] += scores[head * stride + i];
    average[i] /= static_cast<float>(heads.count);
  }
}

}  // namespace dragoman

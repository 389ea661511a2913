// Attention of one query row to positions that lie anywhere in memory: softmax(q · k / √D) · v for each head.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/simd.h"

namespace dragoman {

struct Heads {
  int count;
  int width;    // numbers of a head, a multiple of kLanes; those beyond its dimension are zero
  float scale;  // 1 / √dimension

  int64_t total_width() const { return int64_t{count} * width; }
};

// What a head adds to the score of each position: table[head][start + position · step].
struct DistanceBias {
  const float* table = nullptr;  // null: nothing
  int64_t head_stride = 0;
  int start = 0;
  int step = 0;

  float at(int head, int position) const { return table[head * head_stride + start + position * step]; }
};

// Vectors of a head: known to the compiler for the usual widths, 0 otherwise.
template <int kParts>
constexpr int parts_of(int width) {
  return kParts > 0 ? kParts : width / kLanes;
}

template <int kParts, typename Number>
inline Floats dot_partial(const float* a, const Number* b, int width) {
  Floats sums = {};
  for (int part = 0; part < parts_of<kParts>(width); ++part) {
    sums = fused(floats(a + part * kLanes), floats(b + part * kLanes), sums);
  }
  return sums;
}

// Weights of `count` positions from their scores, in place; the room behind them, up to a whole vector,
// is used too.
inline void softmax(float* scores, int count) {
  const int padded = static_cast<int>(rounded_up(count, kLanes));
  std::fill(scores + count, scores + padded, -INFINITY);
  Floats most = spread(-INFINITY);
  for (int i = 0; i < padded; i += kLanes) most = larger(floats(scores + i), most);
  const Floats highest = spread(maximum(most));
  Floats sums = {};
  for (int i = 0; i < padded; i += kLanes) {
    const Floats weights = exponential_of_negative(floats(scores + i) - highest);
    store(scores + i, weights);
    sums += weights;
  }
  const float factor = 1.0f / sum(sums);
  for (int i = 0; i < padded; i += kLanes) store(scores + i, floats(scores + i) * factor);
}

// joined += weight · value, head by head.
template <int kParts, typename Number>
inline void add_values(const Heads& heads, const float* scores, int64_t stride, const Number* value, float* joined) {
  const int width = heads.width;
  for (int head = 0; head < heads.count; ++head, scores += stride, value += width, joined += width) {
    const Floats weight = spread(*scores);
    for (int part = 0; part < parts_of<kParts>(width); ++part) {
      float* out = joined + part * kLanes;
      store(out, fused(weight, floats(value + part * kLanes), floats(out)));
    }
  }
}

// Where keys and values lie: next to each other, or each position somewhere in the state, where nothing but
// being told beforehand brings them in time.
enum class Places { together, scattered };
constexpr int kPositionsAhead = 2;

template <Places kPlaces, typename Number>
inline void expect(const Number* numbers, int64_t count) {
  if constexpr (kPlaces == Places::together) return;
  constexpr int64_t kCacheLine = 64 / sizeof(Number);
  for (int64_t i = 0; i < count; i += kCacheLine) __builtin_prefetch(numbers + i);
}

// Scores of one position, before scale and bias, `stride` apart.
template <int kParts, typename Number>
inline void score_position(const Heads& heads, const float* query, const Number* key, int64_t stride, float* scores) {
  const int width = heads.width;
  const auto partial = [&](int head) {
    return dot_partial<kParts>(query + int64_t{head} * width, key + int64_t{head} * width, width);
  };
  int head = 0;
  for (; head + 4 <= heads.count; head += 4) {
    const Four sums = sum_each(partial(head), partial(head + 1), partial(head + 2), partial(head + 3));
    for (int i = 0; i < 4; ++i) scores[(head + i) * stride] = sums[i];
  }
  for (; head < heads.count; ++head) scores[head * stride] = sum(partial(head));
}

template <Places kPlaces, int kParts, typename Keys, typename Values>
void attend_with(const Heads& heads, const float* query, int count, Keys keys, Values values, const DistanceBias& bias,
                 float* scores, float* joined) {
  const int64_t stride = rounded_up(count, kLanes);
  for (int i = 0; i < count; ++i) {
    expect<kPlaces>(keys(std::min(i + kPositionsAhead, count - 1)), heads.total_width());
    score_position<kParts>(heads, query, keys(i), stride, scores + i);
  }
  for (int head = 0; head < heads.count; ++head) {
    float* own = scores + head * stride;
    for (int i = 0; i < count; ++i) {
      own[i] *= heads.scale;
      if (bias.table != nullptr) own[i] += bias.at(head, i);
    }
  }
  for (int head = 0; head < heads.count; ++head) softmax(scores + head * stride, count);
  std::fill(joined, joined + heads.total_width(), 0.0f);
  for (int i = 0; i < count; ++i) {
    expect<kPlaces>(values(std::min(i + kPositionsAhead, count - 1)), heads.total_width());
    add_values<kParts>(heads, scores + i, stride, values(i), joined);
  }
}

// All heads of a position are read together, because positions lie far from each other in memory.
//
// Args:
//   query: all heads of one row.
//   count: positions to attend to, at least 1.
//   keys, values: position -> its numbers, all heads, float32 or bfloat16.
//   scores: room for each head's `count` numbers, rounded up to whole vectors.
//   joined: gets all heads' results.
//   average: if not null, gets the weights of the positions, averaged over heads.
template <Places kPlaces, typename Keys, typename Values>
void attend(const Heads& heads, const float* query, int count, Keys keys, Values values, const DistanceBias& bias,
            float* scores, float* joined, float* average) {
  switch (heads.width / kLanes) {
    case 2: attend_with<kPlaces, 2>(heads, query, count, keys, values, bias, scores, joined); break;
    case 4: attend_with<kPlaces, 4>(heads, query, count, keys, values, bias, scores, joined); break;
    case 8: attend_with<kPlaces, 8>(heads, query, count, keys, values, bias, scores, joined); break;
    default: attend_with<kPlaces, 0>(heads, query, count, keys, values, bias, scores, joined);
  }
  if (average == nullptr) return;
  const int64_t stride = rounded_up(count, kLanes);
  for (int i = 0; i < count; ++i) {
    average[i] = 0.0f;
    for (int head = 0; head < heads.count; ++head) average[i] += scores[head * stride + i];
    average[i] /= static_cast<float>(heads.count);
  }
}

}  // namespace dragoman

#include "training/sentence_attention.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/number_types.h"
#include "kernels/transpose.h"
#include "training/parallel.h"
#include "training/small_matmul.h"

namespace dragoman {

namespace {

constexpr int64_t kAlignment = 16;

// One head of one sentence at a time, in float32.
struct Room {
  float *queries, *keys, *values, *turned, *shares, *joined, *slopes, *penalties;

  static int64_t size(const SentenceAttention& all) {
    const int64_t padded = rounded_up(all.num_keys, kAlignment);
    return all.width * (2 * all.num_queries + 3 * padded) + (2 * all.num_queries + 1) * padded;
  }

  Room(const SentenceAttention& all, float* numbers) {
    const int64_t padded = rounded_up(all.num_keys, kAlignment);
    const auto take = [&](int64_t size) { return std::exchange(numbers, numbers + size); };
    queries = take(all.width * all.num_queries);
    joined = take(all.width * all.num_queries);
    keys = take(all.width * padded);
    values = take(all.width * padded);
    turned = take(all.width * padded);
    shares = take(all.num_queries * padded);
    slopes = take(all.num_queries * padded);
    penalties = take(padded);
  }
};

template <typename Number>
void read(const Number* from, int64_t stride, int64_t rows, int64_t width, float* to) {
  for (int64_t row = 0; row < rows; ++row, from += stride, to += width) {
    for (int64_t i = 0; i < width; i += kLanes) store(to + i, floats(from + i));
  }
}

template <typename Number>
void write(const float* from, int64_t rows, int64_t width, Number* to, int64_t stride) {
  for (int64_t row = 0; row < rows; ++row, from += width, to += stride) {
    for (int64_t i = 0; i < width; i += kLanes) put(to + i, floats(from + i));
  }
}

// (rows, width) to (width, padded); what is beyond the rows is zero.
void turn_rows(const float* from, int64_t rows, int64_t width, int64_t padded, float* to) {
  for (int64_t row = 0; row < padded; row += kLanes) {
    for (int64_t column = 0; column < width; column += kLanes) {
      Floats block[kLanes] = {};
      for (int64_t i = 0; i < std::min<int64_t>(kLanes, rows - row); ++i) {
        block[i] = floats(from + (row + i) * width + column);
      }
      turn(block);
      for (int64_t i = 0; i < kLanes; ++i) store(to + (column + i) * padded + row, block[i]);
    }
  }
}

// A sentence's place among all numbers, and which head.
struct Place {
  int64_t sentence;
  int head;
};

class Work {
 public:
  explicit Work(const SentenceAttention& all) : all_(all), padded_(rounded_up(all.num_keys, kAlignment)) {}

  template <typename Number>
  void forward(Place place, const Room& room, Number* joined) const {
    read_inputs<Number>(place, room);
    turn_rows(room.keys, all_.num_keys, all_.width, padded_, room.turned);
    float* shares = shares_of(place);
    multiply({room.queries, all_.width, 1}, room.turned, padded_, all_.num_queries, all_.width, padded_, shares,
             padded_);
    write_penalties(place, room.penalties);
    for (int64_t query = 0; query < all_.num_queries; ++query) {
      hide(query, room.penalties, shares + query * padded_);
      softmax(shares + query * padded_);
    }
    const float* used = drop(place, shares, room.shares);
    multiply({used, padded_, 1}, room.values, all_.width, all_.num_queries, all_.num_keys, all_.width, room.joined,
             all_.width);
    write(room.joined, all_.num_queries, all_.width, joined + joined_offset(place), joined_stride());
  }

  template <typename Number>
  void backward(Place place, const Room& room, const AttentionGradients& out) const {
    const int64_t queries = all_.num_queries, keys = all_.num_keys, width = all_.width;
    read_inputs<Number>(place, room);
    read(static_cast<const Number*>(out.of_joined) + joined_offset(place), joined_stride(), queries, width,
         room.joined);
    const float* shares = shares_of(place);
    turn_rows(room.values, keys, width, padded_, room.turned);
    multiply({room.joined, width, 1}, room.turned, padded_, queries, width, padded_, room.slopes, padded_);

    const float* used = drop(place, shares, room.shares);
    multiply({used, 1, padded_}, room.joined, width, keys, queries, width, room.turned, width);
    write(room.turned, keys, width, static_cast<Number*>(out.of_values) + key_offset(place), all_.key_stride);

    for (int64_t query = 0; query < queries; ++query) {
      softmax_gradient(place, query, shares + query * padded_, room.slopes + query * padded_);
    }
    multiply({room.slopes, padded_, 1}, room.keys, width, queries, keys, width, room.joined, width);
    write(room.joined, queries, width, static_cast<Number*>(out.of_queries) + query_offset(place), all_.query_stride);
    multiply({room.slopes, 1, padded_}, room.queries, width, keys, queries, width, room.turned, width);
    write(room.turned, keys, width, static_cast<Number*>(out.of_keys) + key_offset(place), all_.key_stride);
  }

 private:
  int64_t joined_stride() const { return int64_t{all_.heads} * all_.width; }
  int64_t joined_offset(Place place) const {
    return place.sentence * all_.num_queries * joined_stride() + place.head * all_.width;
  }
  int64_t query_offset(Place place) const {
    return place.sentence * all_.num_queries * all_.query_stride + place.head * all_.width;
  }
  int64_t key_offset(Place place) const {
    return place.sentence * all_.num_keys * all_.key_stride + place.head * all_.width;
  }
  int64_t first_share(Place place) const {
    return (place.sentence * all_.heads + place.head) * all_.num_queries * padded_;
  }
  float* shares_of(Place place) const { return all_.shares + first_share(place); }

  template <typename Number>
  void read_inputs(Place place, const Room& room) const {
    const int64_t key = key_offset(place), stride = all_.key_stride, keys = all_.num_keys;
    read(static_cast<const Number*>(all_.queries) + query_offset(place), all_.query_stride, all_.num_queries,
         all_.width, room.queries);
    read(static_cast<const Number*>(all_.keys) + key, stride, keys, all_.width, room.keys);
    read(static_cast<const Number*>(all_.values) + key, stride, keys, all_.width, room.values);
  }

  // What is added to the score of each key: 0, or −∞ where nobody of the sentence may look.
  void write_penalties(Place place, float* penalties) const {
    const uint8_t* visible = all_.visible == nullptr ? nullptr : all_.visible + place.sentence * all_.num_keys;
    for (int64_t key = 0; key < padded_; ++key) {
      const bool is_seen = key < all_.num_keys && (visible == nullptr || visible[key] != 0);
      penalties[key] = is_seen ? 0.0f : -INFINITY;
    }
  }

  void hide(int64_t query, const float* penalties, float* scores) const {
    for (int64_t i = 0; i < padded_; i += kLanes) store(scores + i, floats(scores + i) + floats(penalties + i));
    if (all_.is_causal) std::fill(scores + query + 1, scores + padded_, -INFINITY);
  }

  void softmax(float* scores) const {
    Floats most = spread(-INFINITY), sums = {};
    for (int64_t i = 0; i < padded_; i += kLanes) most = larger(floats(scores + i), most);
    const float highest = maximum(most);
    for (int64_t i = 0; i < padded_; i += kLanes) {
      const Floats x = floats(scores + i);
      const Floats share = x == -INFINITY ? Floats{} : exponential_of_negative((x - highest) * all_.scale);
      store(scores + i, share);
      sums += share;
    }
    const float factor = 1.0f / sum(sums);
    for (int64_t i = 0; i < padded_; i += kLanes) store(scores + i, floats(scores + i) * factor);
  }

  // From the slope of the shares to that of the scores: share · (slope − Σ share · slope) / √D.
  void softmax_gradient(Place place, int64_t query, const float* shares, float* slopes) const {
    Floats sums = {};
    for (int64_t i = 0; i < padded_; i += kLanes) {
      Floats slope = floats(slopes + i);
      if (all_.dropout.threshold != 0) slope *= all_.dropout.factors(first_share(place) + query * padded_ + i);
      store(slopes + i, slope);
      sums = fused(slope, floats(shares + i), sums);
    }
    const float average = sum(sums);
    for (int64_t i = 0; i < padded_; i += kLanes) {
      store(slopes + i, floats(shares + i) * (floats(slopes + i) - average) * all_.scale);
    }
  }

  // The shares after dropout, in `room` where there is any.
  const float* drop(Place place, const float* shares, float* room) const {
    if (all_.dropout.threshold == 0) return shares;
    for (int64_t i = 0; i < all_.num_queries * padded_; i += kLanes) {
      store(room + i, floats(shares + i) * all_.dropout.factors(first_share(place) + i));
    }
    return room;
  }

  const SentenceAttention& all_;
  const int64_t padded_;
};

// Calls body(type, place, room) for every head of every sentence.
template <typename Body>
void for_each_head(const SentenceAttention& all, const Body& body) {
  if (all.sentences == 0) return;
  const int parts = static_cast<int>(std::min<int64_t>(all.sentences, 8 * all.threads));
  const int64_t size = rounded_up(Room::size(all), 64);
  const std::unique_ptr<float[]> numbers(new float[size * parts]);
  with_number_type(all.is_bfloat16, [&](auto* type) {
    for_each_part(parts, all.threads, [&](int part) {
      const Room room(all, numbers.get() + part * size);
      const Range sentences = share_of(all.sentences, part, parts);
      for (int64_t sentence = sentences.begin; sentence < sentences.end; ++sentence) {
        for (int head = 0; head < all.heads; ++head) body(type, Place{sentence, head}, room);
      }
    });
  });
}

}  // namespace

void attend_sentences(const SentenceAttention& all, void* joined) {
  const Work work(all);
  for_each_head(all, [&](auto* type, Place place, const Room& room) {
    using Number = std::remove_pointer_t<decltype(type)>;
    work.forward<Number>(place, room, static_cast<Number*>(joined));
  });
}

void attend_sentences_gradient(const SentenceAttention& all, const AttentionGradients& gradients) {
  const Work work(all);
  for_each_head(all, [&](auto* type, Place place, const Room& room) {
    using Number = std::remove_pointer_t<decltype(type)>;
    work.backward<Number>(place, room, gradients);
  });
}

}  // namespace dragoman

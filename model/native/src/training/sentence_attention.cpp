#include <algorithm>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/simd.h"
#include "kernels/small_products.h"
#include "training/operators.h"
#include "training/parallel.h"

namespace dragoman {
namespace {

constexpr int64_t kAlignment = 16;

// Scratch memory for one head of one sentence, in float32.
struct Workspace {
  float *queries, *keys, *values, *transposed, *weights, *output, *gradients, *mask;

  static int64_t size(const SentenceAttention& all) {
    const int64_t padded = round_up(all.num_keys, kAlignment);
    return all.width * (2 * all.num_queries + 3 * padded) + (2 * all.num_queries + 1) * padded;
  }

  Workspace(const SentenceAttention& all, float* numbers) {
    const int64_t padded = round_up(all.num_keys, kAlignment);
    const auto take = [&](int64_t size) { return std::exchange(numbers, numbers + size); };
    queries = take(all.width * all.num_queries);
    output = take(all.width * all.num_queries);
    keys = take(all.width * padded);
    values = take(all.width * padded);
    transposed = take(all.width * padded);
    weights = take(all.num_queries * padded);
    gradients = take(all.num_queries * padded);
    mask = take(padded);
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
    for (int64_t i = 0; i < width; i += kLanes) store_floats(to + i, floats(from + i));
  }
}

struct HeadIndex {
  int64_t sentence;
  int head;
};

class Attention {
 public:
  explicit Attention(const SentenceAttention& all) : all_(all), padded_(round_up(all.num_keys, kAlignment)) {}

  template <typename Number>
  void forward(HeadIndex index, const Workspace& work, Number* output) const {
    read_inputs<Number>(index, work);
    transpose_rows(work.keys, all_.width, all_.num_keys, all_.width, padded_, work.transposed);
    float* weights = weights_of(index);
    multiply_small({work.queries, all_.width, 1}, work.transposed, padded_, all_.num_queries, all_.width, padded_,
                   weights, padded_);
    write_mask(index, work.mask);
    for (int64_t query = 0; query < all_.num_queries; ++query) {
      apply_mask(query, work.mask, weights + query * padded_);
      softmax(weights + query * padded_);
    }
    const float* used = drop(index, weights, work.weights);
    multiply_small({used, padded_, 1}, work.values, all_.width, all_.num_queries, all_.num_keys, all_.width,
                   work.output, all_.width);
    write(work.output, all_.num_queries, all_.width, output + output_offset(index), output_stride());
  }

  template <typename Number>
  void backward(HeadIndex index, const Workspace& work, const AttentionGradients& out) const {
    const int64_t queries = all_.num_queries, keys = all_.num_keys, width = all_.width;
    read_inputs<Number>(index, work);
    read(static_cast<const Number*>(out.output) + output_offset(index), output_stride(), queries, width, work.output);
    const float* weights = weights_of(index);
    transpose_rows(work.values, width, keys, width, padded_, work.transposed);
    multiply_small({work.output, width, 1}, work.transposed, padded_, queries, width, padded_, work.gradients, padded_);

    const float* used = drop(index, weights, work.weights);
    multiply_small({used, 1, padded_}, work.output, width, keys, queries, width, work.transposed, width);
    write(work.transposed, keys, width, static_cast<Number*>(out.values) + key_offset(index), all_.key_stride);

    for (int64_t query = 0; query < queries; ++query) {
      softmax_gradient(index, query, weights + query * padded_, work.gradients + query * padded_);
    }
    multiply_small({work.gradients, padded_, 1}, work.keys, width, queries, keys, width, work.output, width);
    write(work.output, queries, width, static_cast<Number*>(out.queries) + query_offset(index), all_.query_stride);
    multiply_small({work.gradients, 1, padded_}, work.queries, width, keys, queries, width, work.transposed, width);
    write(work.transposed, keys, width, static_cast<Number*>(out.keys) + key_offset(index), all_.key_stride);
  }

 private:
  int64_t output_stride() const { return int64_t{all_.heads} * all_.width; }
  int64_t output_offset(HeadIndex index) const {
    return index.sentence * all_.num_queries * output_stride() + index.head * all_.width;
  }
  int64_t query_offset(HeadIndex index) const {
    return index.sentence * all_.num_queries * all_.query_stride + index.head * all_.width;
  }
  int64_t key_offset(HeadIndex index) const {
    return index.sentence * all_.num_keys * all_.key_stride + index.head * all_.width;
  }
  int64_t first_weight(HeadIndex index) const {
    return (index.sentence * all_.heads + index.head) * all_.num_queries * padded_;
  }
  float* weights_of(HeadIndex index) const { return all_.weights + first_weight(index); }

  template <typename Number>
  void read_inputs(HeadIndex index, const Workspace& work) const {
    const int64_t key = key_offset(index), stride = all_.key_stride, keys = all_.num_keys;
    read(static_cast<const Number*>(all_.queries) + query_offset(index), all_.query_stride, all_.num_queries,
         all_.width, work.queries);
    read(static_cast<const Number*>(all_.keys) + key, stride, keys, all_.width, work.keys);
    read(static_cast<const Number*>(all_.values) + key, stride, keys, all_.width, work.values);
  }

  // Writes what is added to the score of each key: 0, or −∞ for masked keys and padding.
  void write_mask(HeadIndex index, float* mask) const {
    const uint8_t* visible = all_.visible == nullptr ? nullptr : all_.visible + index.sentence * all_.num_keys;
    for (int64_t key = 0; key < padded_; ++key) {
      const bool is_visible = key < all_.num_keys && (visible == nullptr || visible[key] != 0);
      mask[key] = is_visible ? 0.0f : -INFINITY;
    }
  }

  void apply_mask(int64_t query, const float* mask, float* scores) const {
    for (int64_t i = 0; i < padded_; i += kLanes) store(scores + i, floats(scores + i) + floats(mask + i));
    if (all_.is_causal) std::fill(scores + query + 1, scores + padded_, -INFINITY);
  }

  void softmax(float* scores) const {
    Floats largest = broadcast(-INFINITY), sums = {};
    for (int64_t i = 0; i < padded_; i += kLanes) largest = maximum(floats(scores + i), largest);
    const float highest = reduce_max(largest);
    for (int64_t i = 0; i < padded_; i += kLanes) {
      const Floats x = floats(scores + i);
      const Floats weight = x == -INFINITY ? Floats{} : exp_of_negative((x - highest) * all_.scale);
      store(scores + i, weight);
      sums += weight;
    }
    const float factor = 1.0f / reduce_sum(sums);
    for (int64_t i = 0; i < padded_; i += kLanes) store(scores + i, floats(scores + i) * factor);
  }

  // From the gradient g of the weights w to that of the scores: w · (g − Σ w · g) / √D, in place.
  void softmax_gradient(HeadIndex index, int64_t query, const float* weights, float* gradients) const {
    Floats sums = {};
    for (int64_t i = 0; i < padded_; i += kLanes) {
      Floats gradient = floats(gradients + i);
      if (all_.dropout.threshold != 0) gradient *= all_.dropout.factors(first_weight(index) + query * padded_ + i);
      store(gradients + i, gradient);
      sums = multiply_add(gradient, floats(weights + i), sums);
    }
    const float average = reduce_sum(sums);
    for (int64_t i = 0; i < padded_; i += kLanes) {
      store(gradients + i, floats(weights + i) * (floats(gradients + i) - average) * all_.scale);
    }
  }

  // Returns the weights after dropout, which are in `dropped` if the rate is not 0.
  const float* drop(HeadIndex index, const float* weights, float* dropped) const {
    if (all_.dropout.threshold == 0) return weights;
    for (int64_t i = 0; i < all_.num_queries * padded_; i += kLanes) {
      store(dropped + i, floats(weights + i) * all_.dropout.factors(first_weight(index) + i));
    }
    return dropped;
  }

  const SentenceAttention& all_;
  const int64_t padded_;
};

// Calls body(type, index, workspace) for every head of every sentence.
template <typename Body>
void for_each_head(const SentenceAttention& all, const Body& body) {
  if (all.sentences == 0) return;
  const int parts = static_cast<int>(std::min<int64_t>(all.sentences, 8 * all.threads));
  const int64_t size = round_up(Workspace::size(all), 64);
  const std::unique_ptr<float[]> numbers(new float[size * parts]);
  with_number_type(all.is_bfloat16, [&](auto* type) {
    for_each_part(parts, all.threads, [&](int part) {
      const Workspace work(all, numbers.get() + part * size);
      const Range sentences = range_of_part(all.sentences, part, parts);
      for (int64_t sentence = sentences.begin; sentence < sentences.end; ++sentence) {
        for (int head = 0; head < all.heads; ++head) body(type, HeadIndex{sentence, head}, work);
      }
    });
  });
}

}  // namespace

void attend_sentences(const SentenceAttention& all, void* output) {
  const Attention attention(all);
  for_each_head(all, [&](auto* type, HeadIndex index, const Workspace& work) {
    using Number = std::remove_pointer_t<decltype(type)>;
    attention.forward<Number>(index, work, static_cast<Number*>(output));
  });
}

void attend_sentences_gradient(const SentenceAttention& all, const AttentionGradients& gradients) {
  const Attention attention(all);
  for_each_head(all, [&](auto* type, HeadIndex index, const Workspace& work) {
    using Number = std::remove_pointer_t<decltype(type)>;
    attention.backward<Number>(index, work, gradients);
  });
}

}  // namespace dragoman

// The operators of a training step on the CPU, and their arguments as plain C that ctypes fills in.
//
// model/native/operators.py has the same structs. Rows are contiguous unless there is a stride.
#pragma once

#include <cstdint>

#include "kernels/simd.h"

namespace dragoman {

using Words = uint32_t __attribute__((vector_size(kLanes * 4)));

// Dropout (https://jmlr.org/papers/v15/srivastava14a.html). The mask is never stored: it is computed from the seed and
// the index of a number.
struct Dropout {
  uint64_t seed;
  uint32_t threshold;  // rate · 2³²; 0 keeps everything
  float scale;         // 1 / (1 − rate)

  // The factors for the numbers at index … index + kLanes - 1: 0 or the scale.
  Floats factors(int64_t index) const {
    Words lanes;
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = lane;
    return hash(lanes + static_cast<uint32_t>(index)) >= threshold ? broadcast(scale) : Floats{};
  }

 private:
  // The integer hash lowbias32 (https://nullprogram.com/blog/2018/07/31/). Half of the seed is added before it, half of
  // it between its rounds.
  Words hash(Words x) const {
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

// sum = stream + dropout(update). Without a stream, sum = dropout(update), which also computes the gradient of an
// update from that of a sum.
struct DropoutAdd {
  const float* stream;  // may be null
  const void* update;
  void* sum;
  int64_t size;  // a multiple of kLanes
  Dropout dropout;
  int32_t update_is_bfloat16;
  int32_t sum_is_bfloat16;
  int32_t threads;
};

void dropout_add(const DropoutAdd& sum);

// Layer norm (https://arxiv.org/abs/1607.06450). `normed` is float32 or bfloat16, all else is float32.
struct NormedRows {
  const float* rows_in;
  const float* gain;
  const float* shift;  // may be null
  void* normed;
  float* means;    // (rows)
  float* factors;  // (rows), 1 / √(variance + ε)
  int64_t rows;
  int64_t width;  // a multiple of kLanes
  float epsilon;
  int32_t normed_is_bfloat16;
  int32_t threads;
};

void norm_rows(const NormedRows& norm);

// The gradients of a layer norm. `NormedRows::normed` is the gradient of its result then.
struct NormGradients {
  const float* upstream;  // gradient of the residual stream, which is added to that of the rows; may be null
  float* rows;
  float* gain;
  float* shift;  // may be null
};

void norm_rows_gradient(const NormedRows& norm, const NormGradients& gradients);

// Attention over whole sentences, softmax(QKᵀ/√D)V (https://arxiv.org/abs/1706.03762).
//
// Tensors are (sentences, positions, heads · width), all float32 or all bfloat16. The gradients of queries, keys and
// values have the same layout as these.
struct SentenceAttention {
  const void* queries;
  const void* keys;
  const void* values;
  const uint8_t* visible;  // (sentences, num_keys), 0 for masked keys; may be null
  float* weights;          // (sentences, heads, num_queries, num_keys rounded up to 16), kept for the gradient
  int64_t query_stride;    // numbers from one row to the next
  int64_t key_stride;      // of keys and of values
  int64_t sentences;
  int64_t num_queries;
  int64_t num_keys;
  int32_t heads;
  int32_t width;  // of a head, a multiple of 16
  float scale;
  int32_t is_causal;  // query i attends to keys 0 … i
  Dropout dropout;
  int32_t is_bfloat16;
  int32_t threads;
};

// output: (sentences, num_queries, heads · width).
void attend_sentences(const SentenceAttention& all, void* output);

struct AttentionGradients {
  const void* output;
  void* queries;
  void* keys;
  void* values;
};

void attend_sentences_gradient(const SentenceAttention& all, const AttentionGradients& gradients);

// A projection y = Wx + b in bfloat16, with sums in float32.
//
// Rows are contiguous. `inputs` is a positive multiple of 32, `outputs` of 16.
struct Projection {
  const float* weight;  // (outputs, inputs)
  const float* bias;    // (outputs), may be null
  int64_t rows;
  int64_t inputs;
  int64_t outputs;
  int32_t threads;
};

// Whether this library has the functions below, which need AVX-512 or AMX instructions for bfloat16.
bool has_bfloat16_products();

// outputs = inputs · weightᵀ + bias
void project(const Projection& projection, const uint16_t* inputs, uint16_t* outputs);

// input_gradient = output_gradient · weight
void project_gradient(const Projection& projection, const uint16_t* output_gradient, uint16_t* input_gradient);

// weight_gradient = output_gradientᵀ · inputs, bias_gradient = the sum of output_gradient over rows, in float32.
// bias_gradient may be null.
void project_weight_gradient(const Projection& projection, const uint16_t* output_gradient, const uint16_t* inputs,
                             float* weight_gradient, float* bias_gradient);

// Label-smoothed cross entropy (Szegedy et al. 2015, https://arxiv.org/abs/1512.00567).
//
// Rows of logits and their labels. Rows whose label is `pad_id` are skipped.
struct LossRows {
  const void* logits;     // (rows, vocabulary), float32 or bfloat16
  const int64_t* labels;  // (rows)
  float* normalisers;     // (rows), log Σ exp(logit); the loss writes them, its gradient reads them
  int64_t row_stride;     // numbers from one row of logits to the next
  int64_t rows;
  int64_t vocabulary;
  int64_t pad_id;
  double smoothing;          // ε: the label has the probability q = 1 - ε
  double other_probability;  // q of each token that is neither the label nor padding
  int32_t is_bfloat16;
  int32_t threads;
};

// sums: −Σ_v q(v) log p(v), and −log p(label), over all rows that are not skipped.
void smoothed_loss(const LossRows& rows, double* sums);

// gradient = scale · (softmax(logits) − q), contiguous, in the type of the logits; zero in skipped rows.
void smoothed_loss_gradient(const LossRows& rows, float scale, void* gradient);

}  // namespace dragoman

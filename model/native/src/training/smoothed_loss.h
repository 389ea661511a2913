// Label-smoothed cross entropy (Szegedy et al. 2015, https://arxiv.org/abs/1512.00567) and its gradient.
#pragma once

#include <cstdint>

#include "kernels/number_types.h"
#include "training/parallel.h"

namespace dragoman {

// Rows of scores and what each is to say. Rows whose label is `pad_id` neither count nor are read.
struct LossRows {
  const void* logits;     // (rows, vocabulary), float32 or bfloat16
  const int64_t* labels;  // (rows)
  float* normalisers;     // (rows), log Σ exp(logit); written by the loss, read by its gradient
  int64_t row_stride;     // numbers from one row of logits to the next
  int64_t rows;
  int64_t vocabulary;
  int64_t pad_id;
  double share;  // what the label gives away
  double other;  // probability of each token that is neither the label nor padding
  int32_t is_bfloat16;
  int32_t threads;
};

// sums: −Σ_v q(v) log p(v), and −log p(label), over all rows that count.
void smoothed_loss(const LossRows& rows, double* sums);

// gradient = scale · (softmax(logits) − q), contiguous, of the type of the logits; zero in rows of padding.
void smoothed_loss_gradient(const LossRows& rows, float scale, void* gradient);

}  // namespace dragoman

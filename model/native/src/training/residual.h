// The stream that blocks add to: dropout and addition, layer norm, and their gradients.
//
// Rows lie one after the other; their width is a multiple of kLanes.
#pragma once

#include <cstdint>

#include "training/dropout.h"

namespace dragoman {

// sum = stream + dropout(update). Without a stream: sum = dropout(update), which is also the gradient of an update.
struct DroppedSum {
  const float* stream;  // may be null
  const void* update;
  void* sum;
  int64_t size;  // a multiple of kLanes
  Dropout dropout;
  int32_t update_is_bfloat16;
  int32_t sum_is_bfloat16;
  int32_t threads;
};

void add_dropped(const DroppedSum& sum);

// Layer norm (https://arxiv.org/abs/1607.06450); `normed` is float32 or bfloat16, everything else float32.
struct NormedRows {
  const float* rows_in;
  const float* gain;
  const float* shift;  // may be null
  void* normed;
  float* means;    // (rows)
  float* factors;  // (rows), 1 / √(variance + ε)
  int64_t rows;
  int64_t width;
  float epsilon;
  int32_t normed_is_bfloat16;
  int32_t threads;
};

void norm_rows(const NormedRows& norm);

// The gradients of a norm from that of what it gave, whose address is `normed`. That of the rows has
// `upstream`, what came past the norm, added to it; it may be null.
struct NormGradients {
  const float* upstream;
  float* of_rows;
  float* of_gain;
  float* of_shift;  // may be null
};

void norm_rows_gradient(const NormedRows& norm, const NormGradients& gradients);

}  // namespace dragoman

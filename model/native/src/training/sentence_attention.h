// Attention over whole sentences, softmax(QKᵀ/√D)V, and its gradient; made for sentences of some ten positions.
#pragma once

#include <cstdint>

#include "training/dropout.h"

namespace dragoman {

// Heads lie next to each other in a row; rows of a sentence, and sentences, follow each other. Numbers are
// all float32 or all bfloat16. The gradients of queries, keys and values lie as these do.
struct SentenceAttention {
  const void* queries;
  const void* keys;
  const void* values;
  const uint8_t* visible;  // (sentences, num_keys), 0 where nobody may look; may be null
  float* shares;           // (sentences, heads, num_queries, num_keys rounded up to 16); kept for the gradient
  int64_t query_stride;    // numbers from one row to the next
  int64_t key_stride;      // of keys and of values
  int64_t sentences;
  int64_t num_queries;
  int64_t num_keys;
  int32_t heads;
  int32_t width;  // of a head, a multiple of 16
  float scale;
  int32_t is_causal;  // query i sees keys 0 … i
  Dropout dropout;
  int32_t is_bfloat16;
  int32_t threads;
};

// joined: (sentences, num_queries, heads · width).
void attend_sentences(const SentenceAttention& all, void* joined);

struct AttentionGradients {
  const void* of_joined;
  void* of_queries;
  void* of_keys;
  void* of_values;
};

void attend_sentences_gradient(const SentenceAttention& all, const AttentionGradients& gradients);

}  // namespace dragoman

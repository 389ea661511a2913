// The shape of a network, as plain C that ctypes fills in.
#pragma once

#include <cstdint>

namespace dragoman {

enum class Positions : int32_t { sinusoidal = 0, learned = 1, relative = 2, rotary = 3, relative_vectors = 4 };

// The fields of TransformerConfig in model/config.py that decoding needs; NativeConfig in model/native/binding.py
// has the same order.
struct NetworkConfig {
  int32_t source_vocab_size, target_vocab_size;
  int32_t model_dim, num_heads, num_encoder_layers, num_decoder_layers, ffn_dim;
  int32_t head_dim;
  int32_t activation;  // Activation
  int32_t is_pre_norm, has_final_norm;
  int32_t norm_form;              // NormForm
  int32_t has_gated_ffn;          // the activated projection is multiplied by a second one
  int32_t has_recurrent_cells;    // SSRU cells take the place of the decoder's self-attention
  int32_t positions;              // Positions
  int32_t has_sinusoid_halves;    // 1: all sines, then all cosines; 0: interleaved
  int32_t has_sinusoid_endpoint;  // 1: frequencies 10000^(-i / (model_dim / 2 - 1)); 0: 10000^(-2i / model_dim)
  int32_t sinusoid_offset;        // row of the table for position 0
  int32_t relative_buckets, relative_max_distance;
  int32_t max_positions;
  int32_t scales_embeddings;
  int32_t precision;  // Precision
  float norm_epsilon, embedding_norm_epsilon, attention_scale, logit_scale;
};

}  // namespace dragoman

// The network as decoding needs it: encode source sentences, then one token for every row at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "network/kv_pool.h"
#include "network/tensors.h"

namespace dragoman {

enum class Precision : int32_t { float32 = 0, bfloat16 = 1, int8 = 2 };
enum class Activation : int32_t { relu = 0, gelu = 1, silu = 2 };
enum class Positions : int32_t { sinusoidal = 0, learned = 1, relative = 2, rotary = 3 };

// The fields of TransformerConfig that decoding needs, in this order; every one an int32 but the last.
struct NetworkConfig {
  int32_t source_vocab_size, target_vocab_size;
  int32_t model_dim, num_heads, num_encoder_layers, num_decoder_layers, ffn_dim;
  int32_t activation;  // Activation
  int32_t is_pre_norm, has_final_norm, norm_divides_by_deviation;
  int32_t positions;            // Positions
  int32_t has_sinusoid_halves;  // sines first, then cosines; else in turn
  int32_t relative_buckets, relative_max_distance;
  int32_t max_positions;
  int32_t scales_embeddings;
  int32_t precision;  // Precision
  float norm_epsilon;
};

// A sentence to encode, and one entry of the state for each of its tokens.
struct Source {
  const int32_t* ids;
  int32_t length;
  const int32_t* entries;
};

// A hypothesis that is to go on by one token.
struct Row {
  int32_t token;          // the last one it produced; the decoder's start token at position 0
  int32_t position;       // tokens it has produced
  const int32_t* past;    // position + 1 entries; the last one is written by the step
  const int32_t* source;  // entries of the source
  int32_t source_length;
  float* attention;  // gets source_length weights of the last layer, averaged over heads; or null
};

class Matrix;

// Buffers of one thread; grows to the largest batch it has seen.
class Scratch;

class Network {
 public:
  // Packs what it needs of the tensors; they may go afterwards. Throws std::invalid_argument.
  Network(const NetworkConfig& config, const Tensors& tensors);
  ~Network();

  const NetworkConfig& config() const;

  // Bytes of packed weights and tables.
  int64_t weight_bytes() const;

  // What an entry of the state must hold: float32 keys and values for float32 weights, else bfloat16.
  StateLayout state_layout() const;

  // Writes the keys and values that the decoder's layers take from each sentence; sentences do not
  // influence each other, and there is no padding.
  void encode(const Source* sources, int count, State& state, Scratch& scratch) const;

  // The projection onto the vocabulary.
  const Matrix& output() const;

  // Logits (count × outputs) of the next token of every row, by this projection, or by some of its outputs.
  // Rows that share a source should be neighbours. What a row gets does not depend on the others.
  void step(const Row* rows, int count, State& state, Scratch& scratch, const Matrix& output, float* logits) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

std::unique_ptr<Scratch, void (*)(Scratch*)> make_scratch();

}  // namespace dragoman

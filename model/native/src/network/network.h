// The network for decoding: encodes source sentences, then computes the logits of one token of every hypothesis a step.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/buffer.h"
#include "kernels/layer_norm.h"
#include "kernels/matrix.h"
#include "kernels/weight_memory.h"
#include "network/config.h"
#include "network/embedding.h"
#include "network/kv_pool.h"
#include "network/loader.h"
#include "network/tensors.h"

namespace dragoman {

// A sentence to encode, with one KV slot for each of its tokens.
struct Source {
  const int32_t* ids;
  int32_t length;
  const int32_t* slots;
};

// A hypothesis that a step extends by one token.
struct Row {
  int32_t token;                // its last token; the decoder's start token at position 0
  int32_t position;             // number of tokens produced
  const int32_t* block_table;   // slots of positions 0 … position; the step writes the last one
  const int32_t* source_slots;  // slots of the source
  int32_t source_length;
  float* attention;  // if not null, receives source_length weights of the last layer, averaged over heads
};

// The float32 activations of one thread. The buffers grow to the largest batch.
struct Scratch {
  Buffer<float> states, normed, projections, attended, hidden, keys, scores, biases;
  Inputs inputs;
};

class Network {
 public:
  // Packs the tensors into memory of this process, or into a memory file if the descriptor is not negative. If another
  // process has packed them into the file, reads no tensor. Throws std::invalid_argument if one is missing or
  // unreadable, or the file does not fit.
  Network(const NetworkConfig& config, const Tensors& tensors, int descriptor);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const NetworkConfig& config() const { return config_; }
  // Bytes of all packed weights.
  int64_t weight_bytes() const { return memory_.used(); }
  // KV slots hold float32 numbers for float32 weights, bfloat16 numbers otherwise.
  KvLayout kv_layout() const;
  // The projection onto the vocabulary.
  const Matrix& output() const { return output_; }

  // Writes the keys and values that the decoder's layers attend to. No sentence influences another.
  void encode(const Source* sources, int count, KvPool& pool, Scratch& scratch) const;

  // Writes the logits (count × outputs) of the next token of every row. `output` is the projection onto the vocabulary
  // or a part of it. The logits of a row do not depend on the other rows. Rows of one source should be adjacent, so
  // that its keys and values stay in the cache.
  void step(const Row* rows, int count, KvPool& pool, Scratch& scratch, const Matrix& output, float* logits) const;

 private:
  struct Attended;

  Network(const NetworkConfig& config, const Tensors& tensors, WeightMemory memory);
  Network(const NetworkConfig& config, const Loader& loader);

  bool has_bfloat16_slots() const { return static_cast<Precision>(config_.precision) != Precision::float32; }
  void reserve(Scratch& scratch, int64_t rows) const;
  void multiply(Scratch& scratch, const Matrix& matrix, const float* rows, int count, int columns, float* results,
                Epilogue epilogue = {}) const;
  template <typename Block>
  void residual(Scratch& scratch, const LayerNorm& norm, int rows, Block block) const;
  void feed_forward(Scratch& scratch, const FeedForward& layer, int rows) const;
  void rotate_heads(float* numbers, int position) const;
  DistanceBias distance_bias(Scratch& scratch, const Buffer<float>& table, const RelativeVectors& vectors,
                             const float* query, int position, int count) const;
  DistanceBias distance_bias(const Buffer<float>& table, int position) const;

  void encode_layer(Scratch& scratch, const EncoderLayer& layer, const Source* sources, int count, int rows) const;
  void attend_to_sentence(Scratch& scratch, const RelativeVectors& vectors, int first, int length) const;
  void attend_to_sentence(Scratch& scratch, int head, const float* queries, int length, float* output) const;
  void store_sources(Scratch& scratch, const Source* sources, int count, int rows, KvPool& pool) const;
  void store_slot(const float* keys_values, void* slot) const;
  void attend_to_slots(Scratch& scratch, int layer, KvPool& pool, const Attended& attended, const float* query,
                       float* output) const;
  void recurrent_step(Scratch& scratch, int layer, const Row* rows, int count, KvPool& pool) const;
  void self_attention_step(Scratch& scratch, int layer, const Row* rows, int count, KvPool& pool) const;
  void cross_attention_step(Scratch& scratch, int layer, const Row* rows, int count, KvPool& pool) const;

  WeightMemory memory_;
  NetworkConfig config_;
  Heads heads_;
  std::vector<EncoderLayer> encoder_;
  std::vector<DecoderLayer> decoder_;
  LayerNorm encoder_norm_, decoder_norm_;
  Matrix output_;
  Matrix source_tokens_, target_tokens_;  // empty if they are tied to another matrix
  Embedding source_embedding_, target_embedding_;
  Buffer<float> rope_table_;      // empty unless positions are rotary
  Buffer<float> encoder_biases_;  // empty unless positions are relative
  Buffer<float> decoder_biases_;
};

}  // namespace dragoman

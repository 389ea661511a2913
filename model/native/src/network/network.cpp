#include "network/network.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace dragoman {
namespace {

const char* const kSourceTokens = "source_embedding.tokens.weight";
const char* const kTargetTokens = "target_embedding.tokens.weight";

// Tied embeddings are stored under the source's name.
const Tensor& target_tokens(const Tensors& tensors) {
  return tensors.at(tensors.has(kTargetTokens) ? kTargetTokens : kSourceTokens);
}

Heads heads_of(const NetworkConfig& config) {
  const int dimension = config.model_dim / config.num_heads;
  return {config.num_heads, static_cast<int>(round_up(dimension, kLanes)),
          1.0f / std::sqrt(static_cast<float>(dimension))};
}

}  // namespace

// The KV slots that one row attends to.
struct Network::Attended {
  const int32_t* slots;
  int count;
  DistanceBias bias;
  float* average;  // see attend()
};

Network::Network(const NetworkConfig& config, const Tensors& tensors)
    : config_(config),
      heads_(heads_of(config)),
      source_embedding_(config_, Loader(config_, tensors, heads_), tensors.at(kSourceTokens), "source_embedding"),
      target_embedding_(config_, Loader(config_, tensors, heads_), target_tokens(tensors), "target_embedding") {
  const Loader loader(config_, tensors, heads_);
  for (int i = 0; i < config.num_encoder_layers; ++i) encoder_.push_back(loader.encoder_layer(i));
  for (int i = 0; i < config.num_decoder_layers; ++i) decoder_.push_back(loader.decoder_layer(i));
  if (config.has_final_norm) {
    encoder_norm_ = loader.norm("encoder.norm");
    decoder_norm_ = loader.norm("decoder.norm");
  }
  const Tensor& projection = tensors.has("output.weight") ? tensors.at("output.weight") : target_tokens(tensors);
  DenseMatrix dense{projection.rows, projection.columns, projection.floats(), loader.floats_or_empty("output.bias")};
  dense.outputs = config.target_vocab_size;  // drops rows that pad the vocabulary to a multiple
  if (!dense.bias.empty()) dense.bias.resize(dense.outputs);
  output_ = loader.packed(dense);
  if (static_cast<Positions>(config.positions) == Positions::rotary) {
    rope_table_ = rope_table(config.max_positions, dimension());
  }
  if (static_cast<Positions>(config.positions) == Positions::relative) {
    encoder_biases_ = distance_biases(config, tensors.at("encoder.relative_bias.weight").floats(), true);
    decoder_biases_ = distance_biases(config, tensors.at("decoder.relative_bias.weight").floats(), false);
  }
}

int64_t Network::weight_bytes() const {
  int64_t bytes = output_.bytes() + source_embedding_.bytes() + target_embedding_.bytes();
  const auto add_layer = [&](const SelfAttention& attention, const FeedForward& feed_forward) {
    bytes += attention.query_key_value.bytes() + attention.output.bytes();
    bytes += feed_forward.input.bytes() + feed_forward.output.bytes();
  };
  for (const EncoderLayer& layer : encoder_) add_layer(layer.attention, layer.feed_forward);
  for (const DecoderLayer& layer : decoder_) {
    add_layer(layer.attention, layer.feed_forward);
    bytes += layer.cross.query.bytes() + layer.cross.key_value.bytes() + layer.cross.output.bytes();
  }
  return bytes;
}

KvLayout Network::kv_layout() const {
  return {config_.num_decoder_layers, static_cast<int>(heads_.total_width()), has_bfloat16_slots() ? 2 : 4};
}

void Network::encode(const Source* sources, int count, KvPool& pool, Scratch& scratch) const {
  int rows = 0;
  for (int sentence = 0; sentence < count; ++sentence) rows += sources[sentence].length;
  reserve(scratch, rows);
  float* state = scratch.states.data();
  for (int sentence = 0; sentence < count; ++sentence) {
    for (int i = 0; i < sources[sentence].length; ++i, state += config_.model_dim) {
      source_embedding_.apply(sources[sentence].ids[i], i, state);
    }
  }
  for (const EncoderLayer& layer : encoder_) encode_layer(scratch, layer, sources, count, rows);
  if (!encoder_norm_.is_identity()) encoder_norm_.apply(scratch.states.data(), scratch.states.data(), rows);
  store_sources(scratch, sources, count, rows, pool);
}

void Network::step(const Row* rows, int count, KvPool& pool, Scratch& scratch, const Matrix& output,
                   float* logits) const {
  reserve(scratch, count);
  float* const states = scratch.states.data();
  for (int i = 0; i < count; ++i) {
    target_embedding_.apply(rows[i].token, rows[i].position, states + int64_t{i} * config_.model_dim);
  }
  for (int layer = 0; layer < config_.num_decoder_layers; ++layer) {
    self_attention_step(scratch, layer, rows, count, pool);
    cross_attention_step(scratch, layer, rows, count, pool);
    feed_forward(scratch, decoder_[layer].feed_forward, count);
  }
  if (!decoder_norm_.is_identity()) decoder_norm_.apply(states, states, count);
  multiply(scratch, output, states, count, config_.model_dim, logits);
}

void Network::reserve(Scratch& scratch, int64_t rows) const {
  const int64_t projected = 3 * heads_.total_width();
  scratch.states.resize(rows * config_.model_dim);
  scratch.normed.resize(rows * config_.model_dim);
  scratch.projections.resize(rows * projected);
  scratch.attended.resize(rows * projected);
  scratch.hidden.resize(rows * config_.ffn_dim);
  scratch.scores.resize(heads_.count * round_up(config_.max_positions, kLanes));
}

void Network::multiply(Scratch& scratch, const Matrix& matrix, const float* rows, int count, int columns,
                       float* results, Epilogue epilogue) const {
  scratch.inputs.prepare(matrix.precision(), rows, count, columns, columns);
  matrix.multiply(scratch.inputs, results, matrix.outputs(), epilogue);
}

// Applies a block with its residual connection: x + f(norm(x)) with pre-norm, norm(x + f(x)) with post-norm. The block
// reads its input from its argument and adds its output to the states.
template <typename Block>
void Network::residual(Scratch& scratch, const LayerNorm& norm, int rows, Block block) const {
  float* states = scratch.states.data();
  if (config_.is_pre_norm) {
    norm.apply(states, scratch.normed.data(), rows);
    block(scratch.normed.data());
  } else {
    block(states);
    norm.apply(states, states, rows);
  }
}

void Network::feed_forward(Scratch& scratch, const FeedForward& layer, int rows) const {
  residual(scratch, layer.norm, rows, [&](const float* input) {
    const Epilogue activate{false, static_cast<Activation>(config_.activation)};
    multiply(scratch, layer.input, input, rows, config_.model_dim, scratch.hidden.data(), activate);
    multiply(scratch, layer.output, scratch.hidden.data(), rows, config_.ffn_dim, scratch.states.data(), {true});
  });
}

// Applies RoPE to all heads of a query or key.
void Network::rotate_heads(float* numbers, int position) const {
  if (rope_table_.empty()) return;
  rotate(numbers, heads_.count, heads_.width, dimension(), rope_table_.data() + int64_t{position} * dimension());
}

// The biases of keys 0, 1, … for a query at `position`.
DistanceBias Network::distance_bias(const std::vector<float>& table, int position) const {
  if (table.empty()) return {};
  return {table.data(), 2 * config_.max_positions - 1, config_.max_positions - 1 - position};
}

void Network::encode_layer(Scratch& scratch, const EncoderLayer& layer, const Source* sources, int count,
                           int rows) const {
  const SelfAttention& part = layer.attention;
  residual(scratch, part.norm, rows, [&](const float* input) {
    multiply(scratch, part.query_key_value, input, rows, config_.model_dim, scratch.projections.data());
    for (int sentence = 0, first = 0; sentence < count; first += sources[sentence++].length) {
      attend_to_sentence(scratch, first, sources[sentence].length);
    }
    const int width = static_cast<int>(heads_.total_width());
    multiply(scratch, part.output, scratch.attended.data(), rows, width, scratch.states.data(), {true});
  });
  feed_forward(scratch, layer.feed_forward, rows);
}

void Network::attend_to_sentence(Scratch& scratch, int first, int length) const {
  const int64_t width = heads_.total_width(), stride = 3 * width;
  float* projections = scratch.projections.data() + first * stride;
  for (int i = 0; i < length; ++i) {
    rotate_heads(projections + i * stride, i);
    rotate_heads(projections + i * stride + width, i);
  }
  const auto keys = [&](int i) { return projections + i * stride + width; };
  const auto values = [&](int i) { return projections + i * stride + 2 * width; };
  for (int i = 0; i < length; ++i) {
    attend<Layout::contiguous>(heads_, projections + i * stride, length, keys, values,
                               distance_bias(encoder_biases_, i), scratch.scores.data(),
                               scratch.attended.data() + (first + i) * width, nullptr);
  }
}

void Network::store_sources(Scratch& scratch, const Source* sources, int count, int rows, KvPool& pool) const {
  const int64_t both = 2 * heads_.total_width();
  scratch.inputs.prepare(output_.precision(), scratch.states.data(), rows, config_.model_dim, config_.model_dim);
  for (int layer = 0; layer < config_.num_decoder_layers; ++layer) {
    decoder_[layer].cross.key_value.multiply(scratch.inputs, scratch.projections.data(), both);
    const float* from = scratch.projections.data();
    for (int sentence = 0; sentence < count; ++sentence) {
      for (int i = 0; i < sources[sentence].length; ++i, from += both) {
        store_slot(from, pool.at(layer, sources[sentence].slots[i]));
      }
    }
  }
}

// Writes the keys and values of one position.
void Network::store_slot(const float* keys_values, void* slot) const {
  const int64_t both = 2 * heads_.total_width();
  if (has_bfloat16_slots()) {
    auto* to = static_cast<uint16_t*>(slot);
    for (int64_t i = 0; i < both; i += kLanes) store(to + i, to_bfloat16(floats(keys_values + i)));
  } else {
    std::copy(keys_values, keys_values + both, static_cast<float*>(slot));
  }
}

void Network::attend_to_slots(Scratch& scratch, int layer, KvPool& pool, const Attended& attended, const float* query,
                              float* output) const {
  const auto attend_with_type = [&](auto number) {
    using Number = decltype(number);
    const int64_t width = heads_.total_width();
    const auto keys = [&](int i) { return static_cast<const Number*>(pool.at(layer, attended.slots[i])); };
    const auto values = [&](int i) { return keys(i) + width; };
    attend<Layout::scattered>(heads_, query, attended.count, keys, values, attended.bias, scratch.scores.data(), output,
                              attended.average);
  };
  has_bfloat16_slots() ? attend_with_type(uint16_t{}) : attend_with_type(float{});
}

void Network::self_attention_step(Scratch& scratch, int layer, const Row* rows, int count, KvPool& pool) const {
  const SelfAttention& part = decoder_[layer].attention;
  const int width = static_cast<int>(heads_.total_width());
  residual(scratch, part.norm, count, [&](const float* input) {
    multiply(scratch, part.query_key_value, input, count, config_.model_dim, scratch.projections.data());
    for (int i = 0; i < count; ++i) {
      const Row& row = rows[i];
      float* query = scratch.projections.data() + int64_t{i} * 3 * width;
      rotate_heads(query, row.position);
      rotate_heads(query + width, row.position);
      store_slot(query + width, pool.at(layer, row.block_table[row.position]));
      const DistanceBias bias = distance_bias(decoder_biases_, row.position);
      attend_to_slots(scratch, layer, pool, {row.block_table, row.position + 1, bias, nullptr}, query,
                      scratch.attended.data() + int64_t{i} * width);
    }
    multiply(scratch, part.output, scratch.attended.data(), count, width, scratch.states.data(), {true});
  });
}

void Network::cross_attention_step(Scratch& scratch, int layer, const Row* rows, int count, KvPool& pool) const {
  const CrossAttention& part = decoder_[layer].cross;
  const int width = static_cast<int>(heads_.total_width());
  const bool is_last = layer + 1 == config_.num_decoder_layers;
  residual(scratch, part.norm, count, [&](const float* input) {
    multiply(scratch, part.query, input, count, config_.model_dim, scratch.projections.data());
    for (int i = 0; i < count; ++i) {
      const Row& row = rows[i];
      attend_to_slots(scratch, layer, pool,
                      {row.source_slots, row.source_length, {}, is_last ? row.attention : nullptr},
                      scratch.projections.data() + int64_t{i} * width, scratch.attended.data() + int64_t{i} * width);
    }
    multiply(scratch, part.output, scratch.attended.data(), count, width, scratch.states.data(), {true});
  });
}

}  // namespace dragoman

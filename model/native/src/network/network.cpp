#include "network/network.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "kernels/attention.h"
#include "kernels/layer_norm.h"
#include "kernels/matrix.h"
#include "network/embedding.h"
#include "network/layers.h"
#include "network/loader.h"
#include "network/positions.h"
#include "network/scratch.h"

namespace dragoman {

std::unique_ptr<Scratch, void (*)(Scratch*)> make_scratch() {
  return {new Scratch, [](Scratch* scratch) { delete scratch; }};
}

namespace {

const Tensor& first_of(const Tensors& tensors, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (tensors.has(name)) return tensors.at(name);
  }
  return tensors.at(*names.begin());
}

// What one row attends to, by entries of the state.
struct Memory {
  const int32_t* entries;
  int count;
  DistanceBias bias;
  float* average;  // see attend()
};

Heads heads_of(const NetworkConfig& config) {
  const int dimension = config.model_dim / config.num_heads;
  return {config.num_heads, static_cast<int>(rounded_up(dimension, kLanes)),
          1.0f / std::sqrt(static_cast<float>(dimension))};
}

}  // namespace

struct Network::Parts {
  NetworkConfig config;
  Heads heads;
  Embedding source_embedding, target_embedding;
  std::vector<EncoderLayer> encoder;
  std::vector<DecoderLayer> decoder;
  LayerNorm encoder_norm, decoder_norm;
  Matrix output;
  std::vector<float> turns;           // rotary positions
  std::vector<float> encoder_biases;  // relative positions
  std::vector<float> decoder_biases;

  Parts(const NetworkConfig& config, const Tensors& tensors);

  int dimension() const { return config.model_dim / config.num_heads; }
  bool has_narrow_state() const { return static_cast<Precision>(config.precision) != Precision::float32; }
  bool is_pre_norm() const { return config.is_pre_norm != 0; }
  void reserve(Scratch& scratch, int64_t rows) const {
    const int64_t positions = heads.count * rounded_up(config.max_positions, kLanes);
    scratch.reserve(rows, config.model_dim, 3 * heads.total_width(), config.ffn_dim, positions);
  }

  void multiply(Scratch& scratch, const Matrix& matrix, const float* rows, int count, int64_t columns, float* results,
                Finish finish = {}) const {
    scratch.inputs.prepare(matrix.precision(), rows, count, static_cast<int>(columns), columns);
    matrix.multiply(scratch.inputs, results, matrix.outputs(), finish);
  }

  // A block and the stream it adds to: pre-norm x + f(norm(x)), post-norm norm(x + f(x)). The block is
  // given what it reads and adds what it computes to the states.
  template <typename Block>
  void residual(Scratch& scratch, const LayerNorm& norm, int rows, Block block) const {
    float* states = scratch.states.data();
    if (is_pre_norm()) {
      norm.apply(states, scratch.normed.data(), rows);
      block(scratch.normed.data());
    } else {
      block(states);
      norm.apply(states, states, rows);
    }
  }

  void feed_forward(Scratch& scratch, const FeedForward& part, int rows) const {
    residual(scratch, part.norm, rows, [&](const float* input) {
      const Finish activate{false, true, static_cast<Activation>(config.activation)};
      multiply(scratch, part.input, input, rows, config.model_dim, scratch.hidden.data(), activate);
      multiply(scratch, part.output, scratch.hidden.data(), rows, config.ffn_dim, scratch.states.data(), {true});
    });
  }

  void turn(float* numbers, int position) const {
    if (!turns.empty()) {
      rotate(numbers, heads.count, heads.width, dimension(), turns.data() + int64_t{position} * dimension());
    }
  }

  // Biases of keys 0, 1, … for a query at `position`.
  DistanceBias biases(const std::vector<float>& table, int position) const {
    if (table.empty()) return {};
    return {table.data(), 2 * config.max_positions - 1, config.max_positions - 1 - position, 1};
  }

  void encode_layer(Scratch& scratch, const EncoderLayer& layer, const Source* sources, int count, int rows) const;
  void attend_to_sentence(Scratch& scratch, int first, int length) const;
  void keep_source(Scratch& scratch, const Source* sources, int count, int rows, State& state) const;
  void keep(const float* keys_values, void* entry) const;
  void attend_to_entries(Scratch& scratch, int layer, State& state, const Memory& memory, const float* query,
                         float* joined) const;
  void step_self(Scratch& scratch, const SelfAttention& part, int layer, const Row* rows, int count,
                 State& state) const;
  void step_cross(Scratch& scratch, const CrossAttention& part, int layer, const Row* rows, int count,
                  State& state) const;
};

Network::Parts::Parts(const NetworkConfig& given, const Tensors& tensors) : config(given), heads(heads_of(given)) {
  const Loader loader(config, tensors, heads);
  const Tensor& source_tokens = tensors.at("source_embedding.tokens.weight");
  const Tensor& target_tokens = first_of(tensors, {"target_embedding.tokens.weight", "source_embedding.tokens.weight"});
  source_embedding = Embedding(config, loader, source_tokens, "source_embedding");
  target_embedding = Embedding(config, loader, target_tokens, "target_embedding");
  for (int i = 0; i < config.num_encoder_layers; ++i) {
    const std::string layer = "encoder.layers." + std::to_string(i);
    encoder.push_back({load_self_attention(loader, layer), load_feed_forward(loader, layer)});
  }
  for (int i = 0; i < config.num_decoder_layers; ++i) {
    const std::string layer = "decoder.layers." + std::to_string(i);
    decoder.push_back(
        {load_self_attention(loader, layer), load_cross_attention(loader, layer), load_feed_forward(loader, layer)});
  }
  if (config.has_final_norm) {
    encoder_norm = loader.norm("encoder.norm");
    decoder_norm = loader.norm("decoder.norm");
  }
  const Tensor& projection = tensors.has("output.weight") ? tensors.at("output.weight") : target_tokens;
  Dense dense{projection.rows, projection.columns, projection.floats(), loader.optional("output.bias")};
  dense.outputs = config.target_vocab_size;  // rows that fill up a multiple are no tokens
  if (!dense.bias.empty()) dense.bias.resize(dense.outputs);
  output = loader.packed(dense);
  if (static_cast<Positions>(config.positions) == Positions::rotary) {
    turns = rotations(config.max_positions, dimension());
  }
  if (static_cast<Positions>(config.positions) == Positions::relative) {
    encoder_biases = distance_biases(config, tensors.at("encoder.relative_bias.weight").floats(), true);
    decoder_biases = distance_biases(config, tensors.at("decoder.relative_bias.weight").floats(), false);
  }
}

void Network::Parts::attend_to_sentence(Scratch& scratch, int first, int length) const {
  const int64_t width = heads.total_width(), stride = 3 * width;
  float* projections = scratch.projections.data() + first * stride;
  for (int i = 0; i < length; ++i) {
    turn(projections + i * stride, i);
    turn(projections + i * stride + width, i);
  }
  for (int i = 0; i < length; ++i) {
    attend<Places::together>(
        heads, projections + i * stride, length, [&](int j) { return projections + j * stride + width; },
        [&](int j) { return projections + j * stride + 2 * width; }, biases(encoder_biases, i), scratch.scores.data(),
        scratch.joined.data() + (first + i) * width, nullptr);
  }
}

void Network::Parts::encode_layer(Scratch& scratch, const EncoderLayer& layer, const Source* sources, int count,
                                  int rows) const {
  residual(scratch, layer.attention.norm, rows, [&](const float* input) {
    multiply(scratch, layer.attention.query_key_value, input, rows, config.model_dim, scratch.projections.data());
    for (int sentence = 0, first = 0; sentence < count; first += sources[sentence++].length) {
      attend_to_sentence(scratch, first, sources[sentence].length);
    }
    multiply(scratch, layer.attention.output, scratch.joined.data(), rows, heads.total_width(), scratch.states.data(),
             {true});
  });
  feed_forward(scratch, layer.feed_forward, rows);
}

void Network::Parts::keep_source(Scratch& scratch, const Source* sources, int count, int rows, State& state) const {
  const int64_t both = 2 * heads.total_width();
  scratch.inputs.prepare(output.precision(), scratch.states.data(), rows, config.model_dim, config.model_dim);
  for (int layer = 0; layer < config.num_decoder_layers; ++layer) {
    decoder[layer].cross.key_value.multiply(scratch.inputs, scratch.projections.data(), both);
    const float* from = scratch.projections.data();
    for (int sentence = 0; sentence < count; ++sentence) {
      for (int i = 0; i < sources[sentence].length; ++i, from += both) {
        keep(from, state.entry(layer, sources[sentence].entries[i]));
      }
    }
  }
}

// One position's keys and values into the state.
void Network::Parts::keep(const float* keys_values, void* entry) const {
  const int64_t both = 2 * heads.total_width();
  if (has_narrow_state()) {
    auto* to = static_cast<uint16_t*>(entry);
    for (int64_t i = 0; i < both; i += kLanes) store(to + i, floats_to_bfloat16(floats(keys_values + i)));
  } else {
    std::copy(keys_values, keys_values + both, static_cast<float*>(entry));
  }
}

void Network::Parts::attend_to_entries(Scratch& scratch, int layer, State& state, const Memory& memory,
                                       const float* query, float* joined) const {
  const auto attend_to = [&](auto number) {
    using Number = decltype(number);
    const int64_t width = heads.total_width();
    const auto keys = [&](int i) { return static_cast<const Number*>(state.entry(layer, memory.entries[i])); };
    const auto values = [&](int i) { return keys(i) + width; };
    attend<Places::scattered>(heads, query, memory.count, keys, values, memory.bias, scratch.scores.data(), joined,
                              memory.average);
  };
  has_narrow_state() ? attend_to(uint16_t{}) : attend_to(float{});
}

void Network::Parts::step_self(Scratch& scratch, const SelfAttention& part, int layer, const Row* rows, int count,
                               State& state) const {
  const int64_t width = heads.total_width();
  residual(scratch, part.norm, count, [&](const float* input) {
    multiply(scratch, part.query_key_value, input, count, config.model_dim, scratch.projections.data());
    for (int i = 0; i < count; ++i) {
      const Row& row = rows[i];
      float* projections = scratch.projections.data() + i * 3 * width;
      turn(projections, row.position);
      turn(projections + width, row.position);
      keep(projections + width, state.entry(layer, row.past[row.position]));
      const Memory past{row.past, row.position + 1, biases(decoder_biases, row.position), nullptr};
      attend_to_entries(scratch, layer, state, past, projections, scratch.joined.data() + i * width);
    }
    multiply(scratch, part.output, scratch.joined.data(), count, width, scratch.states.data(), {true});
  });
}

void Network::Parts::step_cross(Scratch& scratch, const CrossAttention& part, int layer, const Row* rows, int count,
                                State& state) const {
  const int64_t width = heads.total_width();
  const bool is_last = layer + 1 == config.num_decoder_layers;
  residual(scratch, part.norm, count, [&](const float* input) {
    multiply(scratch, part.query, input, count, config.model_dim, scratch.projections.data());
    for (int i = 0; i < count; ++i) {
      const Memory source{rows[i].source, rows[i].source_length, {}, is_last ? rows[i].attention : nullptr};
      const float* query = scratch.projections.data() + i * width;
      attend_to_entries(scratch, layer, state, source, query, scratch.joined.data() + i * width);
    }
    multiply(scratch, part.output, scratch.joined.data(), count, width, scratch.states.data(), {true});
  });
}

Network::Network(const NetworkConfig& config, const Tensors& tensors)
    : parts_(std::make_unique<Parts>(config, tensors)) {}
Network::~Network() = default;

const NetworkConfig& Network::config() const { return parts_->config; }

const Matrix& Network::output() const { return parts_->output; }

int64_t Network::weight_bytes() const {
  int64_t bytes = parts_->output.bytes() + parts_->source_embedding.bytes() + parts_->target_embedding.bytes();
  const auto add = [&](std::initializer_list<const Matrix*> matrices) {
    for (const Matrix* matrix : matrices) bytes += matrix->bytes();
  };
  for (const EncoderLayer& layer : parts_->encoder) {
    add({&layer.attention.query_key_value, &layer.attention.output, &layer.feed_forward.input,
         &layer.feed_forward.output});
  }
  for (const DecoderLayer& layer : parts_->decoder) {
    add({&layer.attention.query_key_value, &layer.attention.output, &layer.cross.query, &layer.cross.key_value,
         &layer.cross.output, &layer.feed_forward.input, &layer.feed_forward.output});
  }
  return bytes;
}

StateLayout Network::state_layout() const {
  const int width = static_cast<int>(parts_->heads.total_width());
  return {parts_->config.num_decoder_layers, width, parts_->has_narrow_state() ? 2 : 4};
}

void Network::encode(const Source* sources, int count, State& state, Scratch& scratch) const {
  const Parts& parts = *parts_;
  const int64_t model_dim = parts.config.model_dim;
  int rows = 0;
  for (int sentence = 0; sentence < count; ++sentence) rows += sources[sentence].length;
  parts.reserve(scratch, rows);
  float* place = scratch.states.data();
  for (int sentence = 0; sentence < count; ++sentence) {
    for (int i = 0; i < sources[sentence].length; ++i, place += model_dim) {
      parts.source_embedding.apply(sources[sentence].ids[i], i, place);
    }
  }
  for (const EncoderLayer& layer : parts.encoder) parts.encode_layer(scratch, layer, sources, count, rows);
  if (parts.encoder_norm.changes()) parts.encoder_norm.apply(scratch.states.data(), scratch.states.data(), rows);
  parts.keep_source(scratch, sources, count, rows, state);
}

void Network::step(const Row* rows, int count, State& state, Scratch& scratch, const Matrix& output,
                   float* logits) const {
  const Parts& parts = *parts_;
  const int64_t model_dim = parts.config.model_dim;
  parts.reserve(scratch, count);
  for (int i = 0; i < count; ++i) {
    parts.target_embedding.apply(rows[i].token, rows[i].position, scratch.states.data() + i * model_dim);
  }
  for (int layer = 0; layer < parts.config.num_decoder_layers; ++layer) {
    const DecoderLayer& part = parts.decoder[layer];
    parts.step_self(scratch, part.attention, layer, rows, count, state);
    parts.step_cross(scratch, part.cross, layer, rows, count, state);
    parts.feed_forward(scratch, part.feed_forward, count);
  }
  if (parts.decoder_norm.changes()) parts.decoder_norm.apply(scratch.states.data(), scratch.states.data(), count);
  parts.multiply(scratch, output, scratch.states.data(), count, model_dim, logits);
}

}  // namespace dragoman

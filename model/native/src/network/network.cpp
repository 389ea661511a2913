#include "network/network.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "kernels/small_products.h"

namespace dragoman {
namespace {

const char* const kSourceTokens = "source_embedding.tokens";
const char* const kTargetTokens = "target_embedding.tokens";
const char* const kOutput = "output";
constexpr int kQueriesAtOnce = 24;

// The projection onto the vocabulary. Tied matrices are stored once, under the first of the three names.
Matrix projection(const NetworkConfig& config, const Loader& loader) {
  const char* const name = loader.has(kOutput) ? kOutput : loader.has(kTargetTokens) ? kTargetTokens : kSourceTokens;
  Matrix matrix = loader.vocabulary(name, config.target_vocab_size);
  const int64_t size = matrix.outputs();
  loader.fill_bias(matrix, 0, "output.bias", [=](int64_t token) { return token < size ? token : -1; });
  return matrix;
}

Heads heads_of(const NetworkConfig& config) {
  return {config.num_heads, static_cast<int>(round_up(config.head_dim, kLanes)), config.attention_scale};
}

}  // namespace

// The KV slots that one row attends to.
struct Network::Attended {
  const int32_t* slots;
  int count;
  DistanceBias bias;
  float* average;  // see attend()
};

Network::Network(const NetworkConfig& config, const Tensors& tensors, int descriptor)
    : Network(config, tensors, WeightMemory(Network(config, tensors, WeightMemory()).weight_bytes(), descriptor)) {
  memory_.seal(descriptor);
}

Network::Network(const NetworkConfig& config, const Tensors& tensors, WeightMemory memory)
    : Network(config, Loader(config, tensors, heads_of(config), memory)) {
  memory_ = std::move(memory);
}

Network::Network(const NetworkConfig& config, const Loader& loader)
    : config_(config),
      heads_(heads_of(config)),
      output_(projection(config, loader)),
      source_tokens_(loader.has(kOutput) || loader.has(kTargetTokens)
                         ? loader.vocabulary(kSourceTokens, config.source_vocab_size)
                         : Matrix()),
      target_tokens_(loader.has(kOutput) && loader.has(kTargetTokens)
                         ? loader.vocabulary(kTargetTokens, config.target_vocab_size)
                         : Matrix()),
      source_embedding_(config, loader, source_tokens_.outputs() > 0 ? source_tokens_ : output_, "source_embedding"),
      target_embedding_(config, loader,
                        target_tokens_.outputs() > 0 ? target_tokens_
                        : loader.has(kOutput)        ? source_tokens_
                                                     : output_,
                        "target_embedding") {
  for (int i = 0; i < config.num_encoder_layers; ++i) encoder_.push_back(loader.encoder_layer(i));
  for (int i = 0; i < config.num_decoder_layers; ++i) decoder_.push_back(loader.decoder_layer(i));
  if (config.has_final_norm) {
    encoder_norm_ = loader.norm("encoder.norm");
    decoder_norm_ = loader.norm("decoder.norm");
  }
  if (static_cast<Positions>(config.positions) == Positions::rotary) {
    rope_table_ = loader.keep(int64_t{config.max_positions} * config.head_dim,
                              [&] { return rope_table(config.max_positions, config.head_dim); });
  }
  if (static_cast<Positions>(config.positions) == Positions::relative) {
    encoder_biases_ = loader.distance_biases("encoder.relative_bias.weight", true);
    if (!config.has_recurrent_cells) {
      decoder_biases_ = loader.distance_biases("decoder.relative_bias.weight", false);
    }
  }
}

KvLayout Network::kv_layout() const {
  const int64_t keys_values = 2 * heads_.total_width() * (has_bfloat16_slots() ? 2 : 4);
  const int64_t state = config_.has_recurrent_cells ? round_up(config_.model_dim, kLanes) * 4 : 0;
  return {config_.num_decoder_layers, std::max(keys_values, state)};
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
    if (config_.has_recurrent_cells) {
      recurrent_step(scratch, layer, rows, count, pool);
    } else {
      self_attention_step(scratch, layer, rows, count, pool);
    }
    cross_attention_step(scratch, layer, rows, count, pool);
    feed_forward(scratch, decoder_[layer].feed_forward, count);
  }
  if (!decoder_norm_.is_identity()) decoder_norm_.apply(states, states, count);
  if (config_.logit_scale != 1.0f) {
    for (int64_t i = 0; i < int64_t{count} * config_.model_dim; ++i) states[i] *= config_.logit_scale;
  }
  multiply(scratch, output, states, count, config_.model_dim, logits);
}

void Network::reserve(Scratch& scratch, int64_t rows) const {
  const int64_t projected = std::max<int64_t>(3 * heads_.total_width(), 2 * config_.model_dim);
  scratch.states.resize(rows * config_.model_dim);
  scratch.normed.resize(rows * config_.model_dim);
  scratch.projections.resize(rows * projected);
  scratch.attended.resize(rows * projected);
  scratch.hidden.resize(rows * config_.ffn_dim);
  const int64_t positions = round_up(config_.max_positions, kLanes);
  scratch.scores.resize(std::max(heads_.count, kQueriesAtOnce) * positions);
  scratch.keys.resize(heads_.width * positions);
  if (static_cast<Positions>(config_.positions) == Positions::relative_vectors) {
    scratch.biases.resize(scratch.scores.size());
  }
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
    float* const hidden = scratch.hidden.data();
    scratch.inputs.prepare(layer.input.precision(), input, rows, config_.model_dim, config_.model_dim);
    if (config_.has_gated_ffn) layer.gate.multiply(scratch.inputs, hidden, config_.ffn_dim);
    const Epilogue activate{config_.has_gated_ffn ? Store::multiplies : Store::replaces,
                            static_cast<Activation>(config_.activation)};
    layer.input.multiply(scratch.inputs, hidden, config_.ffn_dim, activate);
    multiply(scratch, layer.output, hidden, rows, config_.ffn_dim, scratch.states.data(), {Store::adds});
  });
}

// Applies RoPE to all heads of a query or key.
void Network::rotate_heads(float* numbers, int position) const {
  if (rope_table_.is_empty()) return;
  const float* angles = rope_table_.data() + int64_t{position} * config_.head_dim;
  rotate(numbers, heads_.count, heads_.width, config_.head_dim, angles);
}

// The biases of keys 0 … count - 1 for a query at `position`: those of a table, or its products with vectors, which
// stay valid until the next call.
DistanceBias Network::distance_bias(Scratch& scratch, const Buffer<float>& table, const RelativeVectors& vectors,
                                    const float* query, int position, int count) const {
  if (!vectors.is_empty()) {
    vectors.score(heads_, query, position, count, scratch.biases.data());
    return {scratch.biases.data(), count, 0};
  }
  return distance_bias(table, position);
}

DistanceBias Network::distance_bias(const Buffer<float>& table, int position) const {
  if (table.is_empty()) return {};
  return {table.data(), 2 * config_.max_positions - 1, config_.max_positions - 1 - position};
}

void Network::encode_layer(Scratch& scratch, const EncoderLayer& layer, const Source* sources, int count,
                           int rows) const {
  const SelfAttention& part = layer.attention;
  residual(scratch, part.norm, rows, [&](const float* input) {
    multiply(scratch, part.query_key_value, input, rows, config_.model_dim, scratch.projections.data());
    for (int sentence = 0, first = 0; sentence < count; first += sources[sentence++].length) {
      attend_to_sentence(scratch, part.vectors, first, sources[sentence].length);
    }
    const int width = static_cast<int>(heads_.total_width());
    multiply(scratch, part.output, scratch.attended.data(), rows, width, scratch.states.data(), {Store::adds});
  });
  feed_forward(scratch, layer.feed_forward, rows);
}

void Network::attend_to_sentence(Scratch& scratch, const RelativeVectors& vectors, int first, int length) const {
  const int64_t width = heads_.total_width(), stride = 3 * width;
  float* projections = scratch.projections.data() + first * stride;
  float* output = scratch.attended.data() + first * width;
  for (int i = 0; i < length; ++i) {
    rotate_heads(projections + i * stride, i);
    rotate_heads(projections + i * stride + width, i);
  }
  if (vectors.is_empty()) {
    for (int head = 0; head < heads_.count; ++head) {
      attend_to_sentence(scratch, head, projections + head * heads_.width, length, output + head * heads_.width);
    }
    return;
  }
  const auto keys = [&](int i) { return projections + i * stride + width; };
  const auto values = [&](int i) { return projections + i * stride + 2 * width; };
  for (int i = 0; i < length; ++i, output += width) {
    const float* query = projections + i * stride;
    float* scores = scratch.scores.data();
    const DistanceBias bias = distance_bias(scratch, encoder_biases_, vectors, query, i, length);
    attend(heads_, query, length, keys, values, bias, scores, output, nullptr);
    vectors.add(heads_, scores, round_up(length, kLanes), i, length, output);
  }
}

// Attention of one head, for some queries at a time. Its queries, keys and values lie beside those of the other heads.
void Network::attend_to_sentence(Scratch& scratch, int head, const float* queries, int length, float* output) const {
  const int64_t width = heads_.total_width(), stride = 3 * width, padded = round_up(length, kLanes);
  float *keys = scratch.keys.data(), *scores = scratch.scores.data();
  transpose_rows(queries + width, stride, length, heads_.width, padded, keys);
  for (int first = 0; first < length; first += kQueriesAtOnce) {
    const int count = std::min(kQueriesAtOnce, length - first);
    multiply_small({queries + first * stride, stride, 1}, keys, padded, count, heads_.width, padded, scores, padded);
    for (int i = 0; i < count; ++i) {
      float* const row = scores + i * padded;
      const DistanceBias bias = distance_bias(encoder_biases_, first + i);
      for (int64_t key = 0; key < padded; key += kLanes) store(row + key, floats(row + key) * heads_.scale);
      for (int key = 0; key < length && bias.table != nullptr; ++key) row[key] += bias.at(head, key);
      softmax(row, length);
    }
    multiply_small({scores, padded, 1}, queries + 2 * width, stride, count, length, heads_.width,
                   output + first * width, width);
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
    attend(heads_, query, attended.count, keys, values, attended.bias, scratch.scores.data(), output, attended.average);
  };
  has_bfloat16_slots() ? attend_with_type(uint16_t{}) : attend_with_type(float{});
}

// c_t = f_t · c_{t-1} + (1 - f_t) · W x_t with f_t = sigmoid(W_f x_t + b_f); adds relu(c_t) to the states. The slot of
// position t holds c_t in float32.
void Network::recurrent_step(Scratch& scratch, int layer, const Row* rows, int count, KvPool& pool) const {
  const RecurrentCell& cell = decoder_[layer].cell;
  const int width = config_.model_dim;
  residual(scratch, cell.norm, count, [&](const float* input) {
    multiply(scratch, cell.forget_input, input, count, width, scratch.projections.data());
    for (int i = 0; i < count; ++i) {
      const Row& row = rows[i];
      const auto cell_state = [&](int position) {
        return static_cast<float*>(pool.at(layer, row.block_table[position]));
      };
      const float *forget = scratch.projections.data() + int64_t{i} * 2 * width, *entering = forget + width;
      const float* before = row.position > 0 ? cell_state(row.position - 1) : nullptr;
      float *after = cell_state(row.position), *state = scratch.states.data() + int64_t{i} * width;
      for (int first = 0; first < width; first += kLanes) {
        const int64_t left = width - first;
        const Floats kept = sigmoid(load_partial(forget + first, left, 0.0f));
        Floats cells = (1.0f - kept) * load_partial(entering + first, left, 0.0f);
        if (before != nullptr) cells += kept * floats(before + first);
        store(after + first, cells);
        store_partial(state + first, left, load_partial(state + first, left, 0.0f) + Relu{}(cells));
      }
    }
  });
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
      const int positions = row.position + 1;
      float* output = scratch.attended.data() + int64_t{i} * width;
      const DistanceBias bias = distance_bias(scratch, decoder_biases_, part.vectors, query, row.position, positions);
      attend_to_slots(scratch, layer, pool, {row.block_table, positions, bias, nullptr}, query, output);
      if (!part.vectors.is_empty()) {
        part.vectors.add(heads_, scratch.scores.data(), round_up(positions, kLanes), row.position, positions, output);
      }
    }
    multiply(scratch, part.output, scratch.attended.data(), count, width, scratch.states.data(), {Store::adds});
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
    multiply(scratch, part.output, scratch.attended.data(), count, width, scratch.states.data(), {Store::adds});
  });
}

}  // namespace dragoman

// The layers of encoder and decoder, and how their weights are read from the tensors of a checkpoint.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/attention.h"
#include "kernels/layer_norm.h"
#include "kernels/matrix.h"
#include "kernels/relative_vectors.h"
#include "kernels/weight_memory.h"
#include "network/config.h"
#include "network/positions.h"
#include "network/tensors.h"

namespace dragoman {

struct FeedForward {
  Matrix input, gate, output;  // gate: empty unless feed-forward layers are gated
  LayerNorm norm;
};

struct SelfAttention {
  Matrix query_key_value, output;
  LayerNorm norm;
  RelativeVectors vectors;
};

// SSRU, the recurrent cell of Kim et al. 2019 (https://aclanthology.org/D19-5632).
struct RecurrentCell {
  Matrix forget_input;
  LayerNorm norm;
};

struct CrossAttention {
  Matrix query, key_value, output;
  LayerNorm norm;
};

struct EncoderLayer {
  SelfAttention attention;
  FeedForward feed_forward;
};

struct DecoderLayer {
  SelfAttention attention;  // empty if the layer has a cell
  RecurrentCell cell;
  CrossAttention cross;
  FeedForward feed_forward;
};

// Reads tensors and packs them for the kernels, in a weight memory. Reads none that another process has packed there.
// Every head is padded with zeros to whole vectors.
class Loader {
 public:
  Loader(const NetworkConfig& config, const Tensors& tensors, const Heads& heads, WeightMemory& memory)
      : config_(config), tensors_(tensors), heads_(heads), memory_(memory) {}

  EncoderLayer encoder_layer(int index) const {
    const std::string layer = "encoder.layers." + std::to_string(index);
    return {self_attention(layer), feed_forward(layer)};
  }

  DecoderLayer decoder_layer(int index) const {
    const std::string layer = "decoder.layers." + std::to_string(index);
    CrossAttention cross{to_heads({layer + ".cross.query"}, 1), to_heads({layer + ".cross.key_value"}, 2),
                         from_heads(layer + ".cross.output"), norm(layer + ".cross_residual.norm")};
    if (!config_.has_recurrent_cells) return {self_attention(layer), {}, std::move(cross), feed_forward(layer)};
    RecurrentCell cell{linear({layer + ".ssru.forget", layer + ".ssru.input"}, config_.model_dim),
                       norm(layer + ".attention_residual.norm")};
    return {{}, std::move(cell), std::move(cross), feed_forward(layer)};
  }

  // The identity if the checkpoint has no such norm.
  LayerNorm norm(const std::string& name) const { return norm(name, config_.norm_epsilon); }

  LayerNorm norm(const std::string& name, float epsilon) const {
    if (!tensors_.has(name + ".weight")) return {};
    Buffer<float> gain = floats(name + ".weight"), shift = floats_or_empty(name + ".bias");
    if (shift.is_empty()) shift = memory_.take<float>(gain.size());
    return {std::move(gain), std::move(shift), epsilon, static_cast<NormForm>(config_.norm_form)};
  }

  bool has(const std::string& linear) const { return tensors_.has(linear + ".weight"); }

  Buffer<float> floats(const std::string& name) const {
    return keep(tensors_.size(name), [&] { return tensors_.floats(name); });
  }
  Buffer<float> floats_or_empty(const std::string& name) const {
    return tensors_.has(name) ? floats(name) : Buffer<float>{};
  }

  // The numbers that `make` returns as a vector, in the weight memory.
  template <typename Make>
  Buffer<float> keep(int64_t size, Make make) const {
    Buffer<float> kept = memory_.take<float>(size);
    if (memory_.is_writable()) {
      const std::vector<float> numbers = make();
      std::copy(numbers.begin(), numbers.end(), kept.data());
    }
    return kept;
  }

  // The biases that T5 adds to scores, of all distances.
  Buffer<float> distance_biases(const std::string& name, bool is_bidirectional) const {
    const int64_t span = 2 * int64_t{config_.max_positions} - 1;
    return keep(config_.num_heads * span,
                [&] { return dragoman::distance_biases(config_, tensors_.floats(name), is_bidirectional); });
  }

  // The first rows of an embedding or projection; further rows pad the vocabulary to a multiple.
  Matrix vocabulary(const std::string& name, int64_t size) const {
    Matrix matrix(precision(), size, config_.model_dim, memory_);
    fill(matrix, 0, name, [=](int64_t row) { return row < size ? row : -1; });
    return matrix;
  }

  // Sets the biases of outputs with new indices; those with a negative one are left out.
  template <typename OutputIndex>
  void fill_bias(Matrix& to, int64_t first, const std::string& name, OutputIndex output_of) const {
    if (!memory_.is_writable() || !tensors_.has(name)) return;
    const std::vector<float> bias = tensors_.floats(name);
    for (std::size_t row = 0; row < bias.size(); ++row) {
      const int64_t output = output_of(static_cast<int64_t>(row));
      if (output >= 0) to.set_bias(first + output, bias[row]);
    }
  }

 private:
  SelfAttention self_attention(const std::string& layer) const {
    return {to_heads({layer + ".attention.query", layer + ".attention.key_value"}, 3),
            from_heads(layer + ".attention.output"), norm(layer + ".attention_residual.norm"),
            relative_vectors(layer + ".attention.relative")};
  }

  RelativeVectors relative_vectors(const std::string& name) const {
    if (static_cast<Positions>(config_.positions) != Positions::relative_vectors) return {};
    return {one_head(name + ".keys.weight"), one_head(name + ".values.weight"), config_.relative_max_distance};
  }

  // The rows of a matrix as wide as a head, padded with zeros.
  Buffer<float> one_head(const std::string& name) const {
    const int64_t size = (2 * int64_t{config_.relative_max_distance} + 1) * heads_.width;
    return keep(size, [&] {
      std::vector<float> padded(size);
      tensors_.for_each_row(name, [&](int64_t row, const Tensor& rows, int64_t index) {
        rows.copy_row(index, padded.data() + row * heads_.width);
      });
      return padded;
    });
  }

  FeedForward feed_forward(const std::string& layer) const {
    const int64_t width = config_.ffn_dim;
    return {linear({layer + ".feed_forward.input"}, width),
            config_.has_gated_ffn ? linear({layer + ".feed_forward.gate"}, width) : Matrix{},
            linear({layer + ".feed_forward.output"}, config_.model_dim, width),
            norm(layer + ".feed_forward_residual.norm")};
  }

  Precision precision() const { return static_cast<Precision>(config_.precision); }

  // Concatenates linear layers with the same inputs and the same number of outputs.
  Matrix linear(std::initializer_list<std::string> names, int64_t outputs, int64_t inputs = 0) const {
    Matrix matrix(precision(), static_cast<int64_t>(names.size()) * outputs, inputs > 0 ? inputs : config_.model_dim,
                  memory_);
    int64_t first = 0;
    for (const std::string& name : names) {
      fill(matrix, first, name, [](int64_t row) { return row; });
      first += outputs;
    }
    return matrix;
  }

  // The index that a number of unpadded heads has among padded ones.
  int64_t padded_index(int64_t index) const {
    const int dimension = config_.head_dim;
    return index / dimension * heads_.width + index % dimension;
  }

  // Concatenates linear layers whose outputs are heads; keys and values are one layer.
  Matrix to_heads(std::initializer_list<std::string> names, int parts) const {
    Matrix matrix(precision(), parts * heads_.total_width(), config_.model_dim, memory_);
    int64_t first = 0;
    for (const std::string& name : names) {
      fill(matrix, first, name, [this](int64_t row) { return padded_index(row); });
      first += heads_.total_width();
    }
    return matrix;
  }

  // A linear layer whose inputs are heads.
  Matrix from_heads(const std::string& name) const {
    Matrix matrix(precision(), config_.model_dim, heads_.total_width(), memory_);
    fill(matrix, 0, name, [](int64_t row) { return row; }, [this](int64_t input) { return padded_index(input); });
    return matrix;
  }

  // Copies a linear layer. Its outputs and inputs get new indices; those with a negative one are left out.
  template <typename OutputIndex, typename InputIndex = std::nullptr_t>
  void fill(Matrix& to, int64_t first, const std::string& name, OutputIndex output_of, InputIndex input_of = {}) const {
    if (!memory_.is_writable()) return;
    constexpr bool kMovesInputs = !std::is_same_v<InputIndex, std::nullptr_t>;
    std::vector<float> numbers, moved(to.inputs());
    std::vector<int8_t> moved_integers(to.inputs());
    const auto place = [&](const auto* row, int64_t columns, auto& places) {
      if constexpr (kMovesInputs) {
        for (int64_t i = 0; i < columns; ++i) places[input_of(i)] = row[i];
        return &*places.cbegin();
      }
      return row;
    };
    tensors_.for_each_row(name + ".weight", [&](int64_t row, const Tensor& rows, int64_t index) {
      const int64_t output = output_of(row);
      if (output < 0) return;
      if (rows.type == NumberType::int8 && to.precision() == Precision::int8) {
        const int8_t* integers = place(rows.integers(index), rows.columns, moved_integers);
        return to.set_output(first + output, integers, rows.scales[index]);
      }
      numbers.resize(rows.columns);
      rows.copy_row(index, numbers.data());
      to.set_output(first + output, place(numbers.data(), rows.columns, moved));
    });
    fill_bias(to, first, name + ".bias", output_of);
  }

  const NetworkConfig& config_;
  const Tensors& tensors_;
  const Heads heads_;
  WeightMemory& memory_;
};

}  // namespace dragoman

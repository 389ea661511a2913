// The layers of encoder and decoder, and how their weights are read from the tensors of a checkpoint.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/layer_norm.h"
#include "kernels/matrix.h"
#include "network/config.h"
#include "network/tensors.h"

namespace dragoman {

struct FeedForward {
  Matrix input, output;
  LayerNorm norm;
};

struct SelfAttention {
  Matrix query_key_value, output;
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
  SelfAttention attention;
  CrossAttention cross;
  FeedForward feed_forward;
};

// Reads tensors and packs them for the kernels. Every head is padded with zeros to whole vectors.
class Loader {
 public:
  Loader(const NetworkConfig& config, const Tensors& tensors, const Heads& heads)
      : config_(config), tensors_(tensors), heads_(heads) {}

  EncoderLayer encoder_layer(int index) const {
    const std::string layer = "encoder.layers." + std::to_string(index);
    return {self_attention(layer), feed_forward(layer)};
  }

  DecoderLayer decoder_layer(int index) const {
    const std::string layer = "decoder.layers." + std::to_string(index);
    CrossAttention cross{to_heads({layer + ".cross.query"}), to_heads({layer + ".cross.key_value"}),
                         from_heads(layer + ".cross.output"), norm(layer + ".cross_residual.norm")};
    return {self_attention(layer), std::move(cross), feed_forward(layer)};
  }

  // The identity if the checkpoint has no such norm.
  LayerNorm norm(const std::string& name) const {
    if (!tensors_.has(name + ".weight")) return {};
    return {tensors_.at(name + ".weight").floats(), floats_or_empty(name + ".bias"), config_.norm_epsilon,
            config_.norm_divides_by_deviation != 0};
  }

  Matrix packed(const DenseMatrix& dense) const { return {static_cast<Precision>(config_.precision), dense}; }

  std::vector<float> floats_or_empty(const std::string& name) const {
    return tensors_.has(name) ? tensors_.at(name).floats() : std::vector<float>{};
  }

 private:
  SelfAttention self_attention(const std::string& layer) const {
    return {to_heads({layer + ".attention.query", layer + ".attention.key_value"}),
            from_heads(layer + ".attention.output"), norm(layer + ".attention_residual.norm")};
  }

  FeedForward feed_forward(const std::string& layer) const {
    return {packed(dense(layer + ".feed_forward.input")), packed(dense(layer + ".feed_forward.output")),
            norm(layer + ".feed_forward_residual.norm")};
  }

  DenseMatrix dense(const std::string& name) const {
    const Tensor& weight = tensors_.at(name + ".weight");
    return {weight.rows, weight.columns, weight.floats(), floats_or_empty(name + ".bias")};
  }

  // The index that a number of unpadded heads has among padded ones.
  int64_t padded_index(int64_t index) const {
    const int dimension = config_.model_dim / config_.num_heads;
    return index / dimension * heads_.width + index % dimension;
  }

  // Concatenates linear layers whose outputs are heads.
  Matrix to_heads(std::initializer_list<std::string> names) const {
    DenseMatrix all;
    for (const std::string& name : names) {
      const DenseMatrix part = dense(name);
      const int64_t first = all.outputs, inputs = all.inputs = part.inputs;
      all.outputs += part.outputs / config_.model_dim * heads_.total_width();  // keys and values are one layer
      all.weights.resize(all.outputs * inputs);
      all.bias.resize(all.outputs);
      for (int64_t output = 0; output < part.outputs; ++output) {
        const int64_t to = first + padded_index(output);
        std::copy_n(part.weights.begin() + output * inputs, inputs, all.weights.begin() + to * inputs);
        if (!part.bias.empty()) all.bias[to] = part.bias[output];
      }
    }
    return packed(all);
  }

  // A linear layer whose inputs are heads.
  Matrix from_heads(const std::string& name) const {
    const DenseMatrix from = dense(name);
    DenseMatrix to{from.outputs, heads_.total_width(), {}, from.bias};
    to.weights.resize(to.outputs * to.inputs);
    for (int64_t output = 0; output < from.outputs; ++output) {
      for (int64_t input = 0; input < from.inputs; ++input) {
        to.weights[output * to.inputs + padded_index(input)] = from.weights[output * from.inputs + input];
      }
    }
    return packed(to);
  }

  const NetworkConfig& config_;
  const Tensors& tensors_;
  const Heads& heads_;
};

}  // namespace dragoman

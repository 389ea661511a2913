// From the tensors of a checkpoint to the parts of a network.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/layer_norm.h"
#include "kernels/matrix.h"
#include "network/network.h"
#include "network/tensors.h"

namespace dragoman {

// Reads tensors and lays them out as the kernels want them: every head padded to whole vectors.
class Loader {
 public:
  Loader(const NetworkConfig& config, const Tensors& tensors, const Heads& heads)
      : config_(config), tensors_(tensors), heads_(heads) {}

  LayerNorm norm(const std::string& name) const {
    if (!tensors_.has(name + ".weight")) return {};
    return {tensors_.at(name + ".weight").floats(), optional(name + ".bias"), config_.norm_epsilon,
            config_.norm_divides_by_deviation != 0};
  }

  Matrix linear(const std::string& name) const { return packed(dense(name)); }

  // Linear layers side by side, whose outputs are heads.
  Matrix to_heads(std::initializer_list<std::string> names) const {
    Dense all;
    for (const std::string& name : names) append(all, pad_outputs(dense(name)));
    return packed(all);
  }

  // A linear layer whose inputs are heads.
  Matrix from_heads(const std::string& name) const { return packed(pad_inputs(dense(name))); }

  Dense dense(const std::string& name) const { return dense(name + ".weight", name + ".bias"); }

  Dense dense(const std::string& weight, const std::string& bias) const {
    const Tensor& tensor = tensors_.at(weight);
    return {tensor.rows, tensor.columns, tensor.floats(), optional(bias)};
  }

  Matrix packed(const Dense& dense) const { return {static_cast<Precision>(config_.precision), dense}; }

  std::vector<float> optional(const std::string& name) const {
    return tensors_.has(name) ? tensors_.at(name).floats() : std::vector<float>{};
  }

 private:
  int dimension() const { return config_.model_dim / config_.num_heads; }
  int64_t place(int64_t number) const { return number / dimension() * heads_.width + number % dimension(); }

  Dense pad_outputs(const Dense& from) const {
    const int64_t copies = from.outputs / config_.model_dim;  // keys and values come as one layer
    Dense to{copies * heads_.total_width(), from.inputs, {}, {}};
    to.weights.resize(to.outputs * to.inputs);
    if (!from.bias.empty()) to.bias.resize(to.outputs);
    for (int64_t output = 0; output < from.outputs; ++output) {
      const auto row = from.weights.begin() + output * from.inputs;
      std::copy(row, row + from.inputs, to.weights.begin() + place(output) * to.inputs);
      if (!from.bias.empty()) to.bias[place(output)] = from.bias[output];
    }
    return to;
  }

  Dense pad_inputs(const Dense& from) const {
    Dense to{from.outputs, heads_.total_width(), {}, from.bias};
    to.weights.resize(to.outputs * to.inputs);
    for (int64_t output = 0; output < from.outputs; ++output) {
      for (int64_t input = 0; input < from.inputs; ++input) {
        to.weights[output * to.inputs + place(input)] = from.weights[output * from.inputs + input];
      }
    }
    return to;
  }

  static void append(Dense& all, const Dense& more) {
    all.outputs += more.outputs;
    all.inputs = more.inputs;
    all.weights.insert(all.weights.end(), more.weights.begin(), more.weights.end());
    all.bias.insert(all.bias.end(), more.bias.begin(), more.bias.end());
  }

  const NetworkConfig& config_;
  const Tensors& tensors_;
  const Heads& heads_;
};

}  // namespace dragoman

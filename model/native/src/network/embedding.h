// From a token and its position to the state that enters the first layer.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/layer_norm.h"
#include "network/loader.h"
#include "network/network.h"
#include "network/positions.h"
#include "network/tensors.h"

namespace dragoman {

// Tokens and their positions: norm?(scale · E[token] + P[position]).
class Embedding {
 public:
  Embedding() = default;
  Embedding(const NetworkConfig& config, const Loader& loader, const Tensor& tokens, const std::string& name)
      : width_(config.model_dim),
        scale_(config.scales_embeddings ? std::sqrt(static_cast<float>(config.model_dim)) : 1.0f),
        tokens_(tokens),
        norm_(loader.norm(name + ".norm")) {
    const auto* from = static_cast<const uint8_t*>(tokens.data);
    const int64_t size = tokens.rows * tokens.columns * (tokens.type == NumberType::float32 ? 4 : 2);
    numbers_.assign(from, from + size);
    tokens_.data = numbers_.data();
    const auto positions = static_cast<Positions>(config.positions);
    if (positions == Positions::learned) added_ = loader.optional(name + ".positions.weight");
    if (positions == Positions::sinusoidal) {
      added_ = sinusoids(config.max_positions, width_, config.has_sinusoid_halves != 0);
    }
  }

  int64_t bytes() const { return numbers_.size() + added_.size() * sizeof(float); }

  void apply(int32_t token, int32_t position, float* state) const {
    tokens_.copy_row(token, state);
    for (int i = 0; i < width_; ++i) state[i] *= scale_;
    if (!added_.empty()) {
      const float* added = added_.data() + int64_t{position} * width_;
      for (int i = 0; i < width_; ++i) state[i] += added[i];
    }
    if (norm_.changes()) norm_.apply(state, state, 1);
  }

 private:
  int width_ = 0;
  float scale_ = 1.0f;
  Tensor tokens_{};
  std::vector<uint8_t> numbers_;
  std::vector<float> added_;
  LayerNorm norm_;
};

}  // namespace dragoman

// The embedding of tokens.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "network/loader.h"

namespace dragoman {

// norm?(scale · E[token] + P[position]).
class Embedding {
 public:
  // `tokens` is E in the packed form of a projection, which may be that of the vocabulary.
  Embedding(const NetworkConfig& config, const Loader& loader, const Matrix& tokens, const std::string& name)
      : scale_(config.scales_embeddings ? std::sqrt(static_cast<float>(config.model_dim)) : 1.0f),
        tokens_(tokens),
        norm_(loader.norm(name + ".norm", config.embedding_norm_epsilon)) {
    const auto positions = static_cast<Positions>(config.positions);
    if (positions == Positions::learned) positions_ = loader.floats_or_empty(name + ".positions.weight");
    if (positions == Positions::sinusoidal) {
      const int64_t size = int64_t{config.max_positions} * config.model_dim;
      positions_ = loader.keep(size, [&] { return sinusoids(config); });
    }
  }

  void apply(int32_t token, int32_t position, float* state) const {
    const int64_t width = tokens_.inputs();
    tokens_.copy_weights(token, state);
    for (int64_t i = 0; i < width; ++i) state[i] *= scale_;
    if (!positions_.is_empty()) {
      const float* added = positions_.data() + position * width;
      for (int64_t i = 0; i < width; ++i) state[i] += added[i];
    }
    if (!norm_.is_identity()) norm_.apply(state, state, 1);
  }

 private:
  float scale_;
  const Matrix& tokens_;
  Buffer<float> positions_;  // P, [positions][width]; empty for positions that are not added
  LayerNorm norm_;
};

}  // namespace dragoman

// The buffers of one thread.
#pragma once

#include "kernels/buffer.h"
#include "kernels/matrix.h"
#include "network/network.h"

namespace dragoman {

// Rows of what passes through the layers, in float32.
class Scratch {
 public:
  void reserve(int64_t rows, int64_t model_dim, int64_t projected, int64_t ffn_dim, int64_t positions) {
    states.resize(rows * model_dim);
    normed.resize(rows * model_dim);
    projections.resize(rows * projected);
    joined.resize(rows * projected);
    hidden.resize(rows * ffn_dim);
    scores.resize(positions);
  }

  Buffer<float> states, normed, projections, joined, hidden, scores;
  Inputs inputs;
};

}  // namespace dragoman

// The activations between the two projections of a feed-forward layer.
//
// A new activation needs a value of `Activation`, a struct and a case here, its number in
// model/decoding/native_runner.py, its name in model/config.py and its PyTorch module in model/network/layers.py.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/simd.h"

namespace dragoman {

enum class Activation : int32_t { none = -1, relu = 0, gelu = 1, silu = 2, gelu_tanh = 3 };

// 1 / (1 + e^-x), computed from e^-|x| for both signs.
inline Floats sigmoid(Floats x) {
  const Floats power = exp_of_negative(x < 0.0f ? x : -x);
  return (x < 0.0f ? power : broadcast(1.0f)) / (1.0f + power);
}

struct Identity {
  Floats operator()(Floats x) const { return x; }
};

// max(x, 0). NaN stays NaN.
struct Relu {
  Floats operator()(Floats x) const { return x < 0.0f ? Floats{} : x; }
};

// x · Φ(x), where Φ is the normal distribution function (https://arxiv.org/abs/1606.08415).
struct Gelu {
  Floats operator()(Floats x) const {
    for (int lane = 0; lane < kLanes; ++lane) {
      x[lane] = 0.5f * x[lane] * (1.0f + std::erf(x[lane] * 0.70710678118654752f));
    }
    return x;
  }
};

// x · Φ(x) with Φ(x) ≈ (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2 (https://arxiv.org/abs/1606.08415, section 2), where
// (1 + tanh(y)) / 2 is the sigmoid of 2y.
struct GeluTanh {
  Floats operator()(Floats x) const {
    constexpr float kFactor = 1.5957691216057308f;  // 2 √(2/π)
    return x * sigmoid(kFactor * x * (1.0f + 0.044715f * x * x));
  }
};

// x / (1 + e^-x) (https://arxiv.org/abs/1702.03118).
struct Silu {
  Floats operator()(Floats x) const { return x * sigmoid(x); }
};

template <typename Visitor>
void with_activation(Activation activation, Visitor visit) {
  switch (activation) {
    case Activation::none: return visit(Identity{});
    case Activation::relu: return visit(Relu{});
    case Activation::gelu: return visit(Gelu{});
    case Activation::silu: return visit(Silu{});
    case Activation::gelu_tanh: return visit(GeluTanh{});
  }
}

}  // namespace dragoman

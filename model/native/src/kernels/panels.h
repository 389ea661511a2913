// Which instructions multiply each precision, and the panels that weights lie in for them.
#pragma once

#include "kernels/dot.h"
#include "network/network.h"

namespace dragoman {

// Vectors of outputs that are computed side by side.
constexpr int kVectors = kLanes == 16 ? 4 : 2;
constexpr int kPanel = kVectors * kLanes;

template <typename Visitor>
void with_dot(Precision precision, Visitor visit) {
  switch (precision) {
    case Precision::float32: return visit(Float32Dot{});
    case Precision::bfloat16: return visit(BFloat16Dot{});
    case Precision::int8: return visit(Int8Dot{});
  }
}

}  // namespace dragoman

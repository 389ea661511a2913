// The three products of a projection y = Wx + b in bfloat16, added up in float32.
#pragma once

#include <cstdint>

namespace dragoman {

// Rows of inputs and outputs lie one after the other. Inputs are a multiple of 32, outputs of 16; neither is 0.
struct Projection {
  const float* weight;  // (outputs, inputs)
  const float* bias;    // (outputs), may be null
  int64_t rows;
  int64_t inputs;
  int64_t outputs;
  int32_t threads;
};

// Whether this library has them: they need instructions of their own.
bool has_bfloat16_products();

// to = from · weightᵀ + bias
void project(const Projection& projection, const uint16_t* from, uint16_t* to);

// of_inputs = slope · weight
void project_gradient(const Projection& projection, const uint16_t* slope, uint16_t* of_inputs);

// of_weight = slopeᵀ · from, of_bias = the sum of slopes; in float32. of_bias may be null.
void project_weight_gradient(const Projection& projection, const uint16_t* slope, const uint16_t* from,
                             float* of_weight, float* of_bias);

}  // namespace dragoman

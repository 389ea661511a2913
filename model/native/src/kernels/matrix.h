// Weight matrices packed for their instruction set, and the product of rows with them.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/buffer.h"
#include "kernels/dot.h"
#include "kernels/weight_memory.h"

namespace dragoman {

// Input rows rounded to the precision of a product. Rows of 8-bit integers have one scale each, so that the rounding of
// a row does not depend on the other rows.
class Inputs {
 public:
  // Reads `columns` numbers of each row; rows start `stride` numbers apart.
  void prepare(Precision precision, const float* rows, int count, int columns, int64_t stride);

  int count() const { return count_; }
  int64_t stride() const { return stride_; }  // in numbers of the precision's type
  const void* data() const { return data_.data(); }
  const float* scales() const { return scales_.data(); }

 private:
  int count_ = 0;
  int64_t stride_ = 0;
  Buffer<uint8_t> data_;
  Buffer<float> scales_;
};

// What a product does to its results before it stores them.
enum class Store : int32_t { replaces, adds, multiplies };
struct Epilogue {
  Store store = Store::replaces;             // what becomes of the numbers stored there before
  Activation activation = Activation::none;  // not with `adds`
};

// y = x · Wᵀ + b. Weights are packed in panels, in the order in which a product reads them.
class Matrix {
 public:
  Matrix() = default;
  // The weights and biases lie in the weight memory: zeros, or those of another process, which must not be set.
  Matrix(Precision precision, int64_t outputs, int64_t inputs, WeightMemory& memory);

  Precision precision() const { return precision_; }
  int64_t outputs() const { return outputs_; }
  int64_t inputs() const { return inputs_; }

  // Sets the weights of an output, which are rounded.
  void set_output(int64_t output, const float* weights);
  // The same for weights of int8 precision, which are integers times the scale.
  void set_output(int64_t output, const int8_t* weights, float scale);
  void set_bias(int64_t output, float bias) { bias_.data()[output] = bias; }
  // Reads the weights of an output.
  void copy_weights(int64_t output, float* weights) const;

  // A matrix with the same inputs and no outputs, which can hold up to `max_outputs` of them.
  Matrix without_outputs(int64_t max_outputs) const;
  // Copies an output of another matrix to output `to`, which may be one past the last.
  void copy_output(const Matrix& other, int64_t from, int64_t to);
  // Keeps only the first outputs.
  void truncate_outputs(int64_t count) { outputs_ = count; }

  // Rows of results start `stride` numbers apart. The order of summation depends on the matrix only.
  void multiply(const Inputs& inputs, float* results, int64_t stride, Epilogue epilogue = {}) const;

 private:
  template <typename Dot, typename Weights>
  void pack(int64_t output, float scale, Weights weight_of);
  template <typename Dot>
  int64_t first_weight(int64_t output) const;
  template <typename Dot, typename Visitor>
  void for_each_panel(Epilogue epilogue, Visitor visit) const;
  template <typename Dot>
  void multiply_with(const Inputs& inputs, float* results, int64_t stride, Epilogue epilogue) const;
  template <typename Dot>
  void multiply_by_tiles(const Inputs& inputs, float* results, int64_t stride, Epilogue epilogue) const;

  Precision precision_ = Precision::float32;
  int64_t outputs_ = 0;
  int64_t inputs_ = 0;
  int64_t groups_ = 0;  // ⌈inputs / kGroup⌉
  Buffer<uint8_t> packed_;
  Buffer<float> scales_;  // int8: a weight is its integer times the scale of its output
  Buffer<float> bias_;
  Buffer<int32_t> offsets_;  // int8: the start of an output's sums
};

}  // namespace dragoman

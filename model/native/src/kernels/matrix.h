// Weight matrices packed for their instruction set, and the product of rows with them.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/buffer.h"
#include "network/network.h"

namespace dragoman {

// A matrix in plain float32, [outputs][inputs], on its way into packed form.
struct Dense {
  int64_t outputs = 0;
  int64_t inputs = 0;
  std::vector<float> weights;
  std::vector<float> bias;  // empty: none
};

// Rows as the products of one precision read them: float32, bfloat16, or 8-bit integers with a scale a row.
class Inputs {
 public:
  // `columns` numbers of each row are read, `stride` apart.
  void prepare(Precision precision, const float* rows, int count, int columns, int64_t stride);

  int count() const { return count_; }
  int64_t stride() const { return stride_; }  // in numbers of the precision's own type
  const void* data() const { return data_.data(); }
  const float* scales() const { return scales_.data(); }

 private:
  int count_ = 0;
  int64_t stride_ = 0;
  Buffer<uint8_t> data_;
  Buffer<float> scales_;
};

// What becomes of a product before it is stored.
struct Finish {
  bool adds = false;  // to what is there already
  bool activates = false;
  Activation activation = Activation::relu;
};

// y = x · Wᵀ + b. Weights lie in panels of neighbouring outputs, in the order in which they are read.
class Matrix {
 public:
  Matrix() = default;
  Matrix(Precision precision, const Dense& dense);

  Precision precision() const { return precision_; }
  int64_t outputs() const { return outputs_; }
  int64_t bytes() const { return packed_.size() + (scales_.size() + bias_.size() + offsets_.size()) * 4; }

  // A matrix of none of these outputs yet, with room for so many of them.
  Matrix room_for(int64_t most) const;
  // Makes output `to`, the next one at most, what output `from` of the other is.
  void copy_output(const Matrix& other, int64_t from, int64_t to);
  // Leaves only the first ones.
  void forget_outputs(int64_t left) { outputs_ = left; }

  // Results are `stride` apart. Each is summed in an order that depends on nothing but the matrix.
  void multiply(const Inputs& inputs, float* results, int64_t stride, Finish finish = {}) const;

 private:
  template <typename Dot>
  void pack(const Dense& dense);
  template <typename Dot>
  void copy_weights(const Matrix& other, int64_t from, int64_t to);
  template <typename Dot>
  int64_t first_weight(int64_t output) const;
  template <typename Dot, typename Visitor>
  void for_each_panel(Finish finish, Visitor visit) const;
  template <typename Dot>
  void multiply_with(const Inputs& inputs, float* results, int64_t stride, Finish finish) const;
  template <typename Dot>
  void multiply_by_tiles(const Inputs& inputs, float* results, int64_t stride, Finish finish) const;

  Precision precision_ = Precision::float32;
  int64_t outputs_ = 0;
  int64_t inputs_ = 0;
  int64_t groups_ = 0;  // of inputs that one instruction takes together
  Buffer<uint8_t> packed_;
  Buffer<float> scales_;  // int8: an output's weights are its integers times this
  Buffer<float> bias_;
  Buffer<int32_t> offsets_;  // int8: what a sum starts from
};

}  // namespace dragoman

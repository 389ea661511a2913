#include "kernels/matrix.h"

#include <algorithm>
#include <cstring>

#include "kernels/panels.h"

namespace dragoman {
namespace {

constexpr float kLargest = 127.0f;
constexpr float kSmallestMagnitude = 1e-12f;

// The largest magnitude; NaN if there is one, because as integers NaN's bits are larger than all others'.
float largest_magnitude(const float* row, int columns) {
  Ints most = {};
  int column = 0;
  for (; column + kLanes <= columns; column += kLanes) {
    const Ints magnitude = bits(floats(row + column)) & 0x7fffffff;
    most = magnitude > most ? magnitude : most;
  }
  int32_t found = 0;
  for (int lane = 0; lane < kLanes; ++lane) found = std::max(found, most[lane]);
  for (; column < columns; ++column) found = std::max(found, load<int32_t>(row + column) & 0x7fffffff);
  return load<float>(&found);
}

// What the integers of a row are multiplied with, so that its largest magnitude is 127.
float scale_of(const float* row, int columns) {
  const float magnitude = largest_magnitude(row, columns);
  return (magnitude < kSmallestMagnitude ? kSmallestMagnitude : magnitude) / kLargest;
}

template <typename Dot>
void round_row(const float* row, int columns, float scale, typename Dot::Input* out) {
  int column = 0;
  for (; column + kLanes <= columns; column += kLanes) store(out + column, Dot::inputs(floats(row + column), scale));
  if (column == columns) return;
  float rest[kLanes] = {};
  std::copy(row + column, row + columns, rest);
  const auto last = Dot::inputs(floats(rest), scale);
  std::memcpy(out + column, &last, (columns - column) * sizeof(*out));
}

}  // namespace

void Inputs::prepare(Precision precision, const float* rows, int count, int columns, int64_t stride) {
  count_ = count;
  scales_.resize(count);
  with_dot(precision, [&](auto dot) {
    using Dot = decltype(dot);
    using Input = typename Dot::Input;
    stride_ = rounded_up(columns, Dot::kGroup);
    data_.resize(count * stride_ * sizeof(Input));
    auto* out = reinterpret_cast<Input*>(data_.data());
    for (int row = 0; row < count; ++row, rows += stride, out += stride_) {
      float& scale = scales_.data()[row];
      scale = Dot::kHasScales ? scale_of(rows, columns) : 1.0f;
      round_row<Dot>(rows, columns, scale, out);
      std::fill(out + columns, out + stride_, Input{});  // meets weights of zero, but must not be NaN
    }
  });
}

Matrix::Matrix(Precision precision, const Dense& dense)
    : precision_(precision), outputs_(dense.outputs), inputs_(dense.inputs) {
  bias_.resize(rounded_up(outputs_, kPanel));
  if (!dense.bias.empty()) std::copy(dense.bias.begin(), dense.bias.begin() + outputs_, bias_.data());
  with_dot(precision, [&](auto dot) { pack<decltype(dot)>(dense); });
}

template <typename Dot>
void Matrix::pack(const Dense& dense) {
  using Weight = typename Dot::Weight;
  const int64_t padded = rounded_up(outputs_, kPanel);
  groups_ = rounded_up(inputs_, Dot::kGroup) / Dot::kGroup;
  packed_.resize(padded * groups_ * Dot::kGroup * sizeof(Weight));
  if constexpr (Dot::kHasScales) {
    scales_.resize(padded);
    offsets_.resize(padded);
  }
  for (int64_t output = 0; output < outputs_; ++output) {
    const float* row = dense.weights.data() + output * inputs_;
    const float scale = Dot::kHasScales ? scale_of(row, static_cast<int>(inputs_)) : 1.0f;
    Weight* const weights = reinterpret_cast<Weight*>(packed_.data()) + first_weight<Dot>(output);
    int32_t total = 0;
    for (int64_t input = 0; input < inputs_; ++input) {
      const Weight weight = Dot::weight(row[input], scale);
      weights[input / Dot::kGroup * kPanel * Dot::kGroup + input % Dot::kGroup] = weight;
      total += static_cast<int32_t>(weight);
    }
    if constexpr (Dot::kHasScales) {
      scales_.data()[output] = scale;
      offsets_.data()[output] = -Dot::kInputOffset * total;
    }
  }
}

// Where an output's first group is; each of the others is a panel's width further.
template <typename Dot>
int64_t Matrix::first_weight(int64_t output) const {
  return (output / kPanel * groups_ * kPanel + output % kPanel) * Dot::kGroup;
}

Matrix Matrix::room_for(int64_t most) const {
  Matrix matrix;
  matrix.precision_ = precision_;
  matrix.inputs_ = inputs_;
  matrix.groups_ = groups_;
  const int64_t padded = rounded_up(most, kPanel), all = rounded_up(outputs_, kPanel);
  matrix.packed_.resize(packed_.size() / all * padded);
  if (scales_.size() > 0) matrix.scales_.resize(padded);
  if (bias_.size() > 0) matrix.bias_.resize(padded);
  if (offsets_.size() > 0) matrix.offsets_.resize(padded);
  return matrix;
}

void Matrix::copy_output(const Matrix& other, int64_t from, int64_t to) {
  with_dot(precision_, [&](auto dot) { copy_weights<decltype(dot)>(other, from, to); });
  if (scales_.size() > 0) scales_.data()[to] = other.scales_.data()[from];
  if (bias_.size() > 0) bias_.data()[to] = other.bias_.data()[from];
  if (offsets_.size() > 0) offsets_.data()[to] = other.offsets_.data()[from];
  outputs_ = std::max(outputs_, to + 1);
}

template <typename Dot>
void Matrix::copy_weights(const Matrix& other, int64_t from, int64_t to) {
  using Weight = typename Dot::Weight;
  const auto* source = reinterpret_cast<const Weight*>(other.packed_.data()) + first_weight<Dot>(from);
  auto* target = reinterpret_cast<Weight*>(packed_.data()) + first_weight<Dot>(to);
  for (int64_t group = 0; group < groups_; ++group) {
    std::copy_n(source, Dot::kGroup, target);
    source += kPanel * Dot::kGroup;
    target += kPanel * Dot::kGroup;
  }
}

}  // namespace dragoman

#include "matrix.h"

#include <algorithm>
#include <cmath>

#include "dot.h"
#include "simd.h"

namespace dragoman {
namespace {

// A block of kMostRows × kVectors sums, the weights and one spread input fill the registers.
constexpr int kVectors = kLanes == 16 ? 4 : 2;
constexpr int kMostRows = 6;
constexpr int kPanel = kVectors * kLanes;
// Inputs of so many rows stay in the second-level cache while all panels pass.
constexpr int kRowsAtOnce = 96;

constexpr float kLargest = 127.0f;
constexpr float kSmallestMagnitude = 1e-12f;

template <typename Visitor>
void with_dot(Precision precision, Visitor visit) {
  switch (precision) {
    case Precision::float32: return visit(Float32Dot{});
    case Precision::bfloat16: return visit(BFloat16Dot{});
    case Precision::int8: return visit(Int8Dot{});
  }
}

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

// Sums of kRows rows with one panel of weights, over all inputs, into `tile`. The sums live in registers.
template <typename Dot, int kRows>
void sum_block(const typename Dot::Weight* panel, int64_t groups, const typename Dot::Input* inputs, int64_t stride,
               const int32_t* offsets, typename Dot::Sums (&tile)[kRows][kVectors]) {
  typename Dot::Sums sums[kRows][kVectors] = {};
  if (offsets != nullptr) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[row][v] = load<typename Dot::Sums>(offsets + v * kLanes);
    }
  }
  for (int64_t group = 0; group < groups; ++group) {
    decltype(Dot::weights(panel)) weights[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) weights[v] = Dot::weights(panel + v * kLanes * Dot::kGroup);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const auto spread = Dot::spread(inputs + row * stride);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[row][v] = Dot::add(sums[row][v], spread, weights[v]);
    }
    panel += kPanel * Dot::kGroup;
    inputs += Dot::kGroup;
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) tile[row][v] = sums[row][v];
  }
}

struct Rectify {
  Floats operator()(Floats x) const { return x < 0.0f ? Floats{} : x; }  // NaN stays
};

struct SigmoidLinear {
  // x / (1 + e^-x), where e^-|x| serves both signs.
  Floats operator()(Floats x) const {
    const Floats power = exponential_of_negative(x < 0.0f ? x : -x);
    return x * (x < 0.0f ? power : spread(1.0f)) / (1.0f + power);
  }
};

struct GaussianErrorLinear {
  Floats operator()(Floats x) const {
    for (int lane = 0; lane < kLanes; ++lane) {
      x[lane] = 0.5f * x[lane] * (1.0f + std::erf(x[lane] * 0.70710678118654752f));
    }
    return x;
  }
};

struct Keep {
  Floats operator()(Floats x) const { return x; }
};

// What a panel's sums need to become results.
struct Panel {
  const int32_t* offsets;  // what sums start from; null: zero
  const float* scales;     // of the weights; null: sums are results
  const float* bias;
  int columns;  // results to store, at most kPanel
  Finish finish;
};

// Results of some rows and a whole panel.
template <typename Dot, bool kAdds, typename Activate>
void finish_tile(const typename Dot::Sums* tile, int rows, const float* row_scales, const Panel& panel, float* out,
                 int64_t stride, Activate activate) {
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const Floats bias = floats(panel.bias + v * kLanes);
    Floats scale = {};
    if constexpr (Dot::kHasScales) scale = floats(panel.scales + v * kLanes);
    for (int row = 0; row < rows; ++row) {
      Floats result = as_floats(tile[row * kVectors + v]);
      if constexpr (Dot::kHasScales) result = result * row_scales[row] * scale;
      result = activate(result + bias);
      float* place = out + row * stride + v * kLanes;
      if constexpr (kAdds) result += floats(place);
      store(place, result);
    }
  }
}

template <typename Dot, typename... Arguments>
void finish_panel(const Finish& finish, const Arguments&... arguments) {
  if (finish.adds) return finish_tile<Dot, true>(arguments..., Keep{});
  if (!finish.activates) return finish_tile<Dot, false>(arguments..., Keep{});
  switch (finish.activation) {
    case Activation::relu: return finish_tile<Dot, false>(arguments..., Rectify{});
    case Activation::gelu: return finish_tile<Dot, false>(arguments..., GaussianErrorLinear{});
    case Activation::silu: return finish_tile<Dot, false>(arguments..., SigmoidLinear{});
  }
}

// The same for the last panel, of which only some columns are results.
template <typename Dot>
void finish_part(const typename Dot::Sums* tile, int rows, const float* row_scales, const Panel& panel, float* out,
                 int64_t stride) {
  float whole[kMostRows * kPanel];
  finish_panel<Dot>({false, panel.finish.activates, panel.finish.activation}, tile, rows, row_scales, panel, &whole[0],
                    int64_t{kPanel});
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < panel.columns; ++column) {
      float& place = out[row * stride + column];
      place = whole[row * kPanel + column] + (panel.finish.adds ? place : 0.0f);
    }
  }
}

template <typename Dot, int kRows>
void multiply_block(const typename Dot::Weight* weights, int64_t groups, const Inputs& inputs, int first,
                    const Panel& panel, float* results, int64_t stride) {
  typename Dot::Sums tile[kRows][kVectors];
  const auto* rows = static_cast<const typename Dot::Input*>(inputs.data()) + first * inputs.stride();
  sum_block<Dot, kRows>(weights, groups, rows, inputs.stride(), panel.offsets, tile);
  const float* row_scales = inputs.scales() + first;
  float* out = results + first * stride;
  if (panel.columns < kPanel) {
    finish_part<Dot>(tile[0], kRows, row_scales, panel, out, stride);
  } else {
    finish_panel<Dot>(panel.finish, &tile[0][0], kRows, row_scales, panel, out, stride);
  }
}

template <typename Dot, typename... Arguments>
void multiply_rows(int rows, const Arguments&... arguments) {
  switch (rows) {
    case 1: return multiply_block<Dot, 1>(arguments...);
    case 2: return multiply_block<Dot, 2>(arguments...);
    case 3: return multiply_block<Dot, 3>(arguments...);
    case 4: return multiply_block<Dot, 4>(arguments...);
    case 5: return multiply_block<Dot, 5>(arguments...);
    default: return multiply_block<Dot, kMostRows>(arguments...);
  }
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

void Matrix::multiply(const Inputs& inputs, float* results, int64_t stride, Finish finish) const {
  with_dot(precision_, [&](auto dot) { multiply_with<decltype(dot)>(inputs, results, stride, finish); });
}

template <typename Dot>
void Matrix::multiply_with(const Inputs& inputs, float* results, int64_t stride, Finish finish) const {
  const auto part = [](const auto& buffer, int64_t output) {
    return buffer.size() == 0 ? nullptr : buffer.data() + output;
  };
  const auto* packed = reinterpret_cast<const typename Dot::Weight*>(packed_.data());
  const int64_t panel_size = groups_ * Dot::kGroup * kPanel;
  for (int first = 0; first < inputs.count(); first += kRowsAtOnce) {
    const int end = std::min(first + kRowsAtOnce, inputs.count());
    for (int64_t output = 0; output < outputs_; output += kPanel) {
      const int columns = static_cast<int>(std::min<int64_t>(kPanel, outputs_ - output));
      const Panel panel{part(offsets_, output), part(scales_, output), bias_.data() + output, columns, finish};
      const auto* weights = packed + output / kPanel * panel_size;
      int blocks = (end - first + kMostRows - 1) / kMostRows;
      for (int row = first; blocks > 0; --blocks) {
        // Blocks of nearly equal height: a last one of a single row would waste most of its loads.
        const int height = (end - row) / blocks;
        multiply_rows<Dot>(height, weights, groups_, inputs, row, panel, results + output, stride);
        row += height;
      }
    }
  }
}

}  // namespace dragoman

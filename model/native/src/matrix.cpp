#include "matrix.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "dot.h"
#include "simd.h"

namespace dragoman {
namespace {

// A block of kMostRows × kVectors sums, the weights and one spread input fill the registers.
#if defined(__AVX512F__)
constexpr int kVectors = 4;
constexpr int kMostRows = 6;
#else
constexpr int kVectors = 2;
constexpr int kMostRows = 6;
#endif
constexpr int kPanel = kVectors * kLanes;
// Inputs of so many rows stay in the second-level cache while all panels pass.
constexpr int kRowsAtOnce = 96;

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

float scale_of(const float* row, int columns) {
  const float magnitude = largest_magnitude(row, columns);
  return (magnitude < kSmallestMagnitude ? kSmallestMagnitude : magnitude) / kLargest;
}

template <typename Input>
void quantise(const float* row, int columns, float scale, Input* out) {
  constexpr int kOffset = Int8Dot::kInputOffset;
  int column = 0;
  for (; column + kLanes <= columns; column += kLanes) {
    const Ints nearest = rounded(floats(row + column) / scale) + kOffset;
    using Narrow = std::conditional_t<std::is_same_v<Input, uint8_t>, Bytes, Shorts>;
    store(out + column, __builtin_convertvector(nearest, Narrow));
  }
  for (; column < columns; ++column) {
    out[column] = static_cast<Input>(static_cast<int32_t>(std::nearbyint(row[column] / scale)) + kOffset);
  }
}

template <typename Input>
void copy_row(const float* row, int columns, Input* out) {
  if constexpr (std::is_same_v<Input, float>) {
    std::copy(row, row + columns, out);
  } else {
    for (int column = 0; column < columns; column += kLanes) {
      float some[kLanes] = {};
      const int count = std::min(kLanes, columns - column);
      std::copy(row + column, row + column + count, some);
      const Halves narrow = floats_to_bfloat16(floats(some));
      std::memcpy(out + column, &narrow, count * sizeof(Input));
    }
  }
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
    typename Dot::Weights weights[kVectors];
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

inline Floats activated(Floats x, Activation activation) {
  switch (activation) {
    case Activation::relu:
      return x < 0.0f ? Floats{} : x;
    case Activation::silu:
      return x / (1.0f + exponential(-x));
    case Activation::gelu:
      for (int lane = 0; lane < kLanes; ++lane) {
        x[lane] = 0.5f * x[lane] * (1.0f + std::erf(x[lane] * 0.70710678118654752f));
      }
      return x;
  }
  return x;
}

// What a panel's sums need to become results.
struct Panel {
  const float* scales;  // null: the sums are results
  const float* bias;    // null: none
  int columns;          // results to store, at most kPanel
  Finish finish;
};

inline void store_part(Floats result, int count, bool adds, float* out) {
  for (int lane = 0; lane < count; ++lane) out[lane] = adds ? out[lane] + result[lane] : result[lane];
}

inline void finish_row(const Floats* sums, float scale, const Panel& panel, float* out) {
  for (int v = 0, column = 0; column < panel.columns; ++v, column += kLanes) {
    Floats result = sums[v];
    if (panel.scales != nullptr) result = result * scale * floats(panel.scales + column);
    if (panel.bias != nullptr) result = result + floats(panel.bias + column);
    if (panel.finish.activates) result = activated(result, panel.finish.activation);
    if (column + kLanes > panel.columns) {
      store_part(result, panel.columns - column, panel.finish.adds, out + column);
    } else {
      store(out + column, panel.finish.adds ? floats(out + column) + result : result);
    }
  }
}

inline Floats as_floats(Floats sums) { return sums; }
template <typename Integers>
Floats as_floats(Integers sums) {
  return __builtin_convertvector(reinterpret_cast<Ints>(sums), Floats);
}

template <typename Dot, int kRows>
void multiply_block(const typename Dot::Weight* weights, int64_t groups, const Inputs& inputs, int row,
                    const int32_t* offsets, const Panel& panel, float* results, int64_t stride) {
  typename Dot::Sums tile[kRows][kVectors];
  const auto* rows = static_cast<const typename Dot::Input*>(inputs.data()) + row * inputs.stride();
  sum_block<Dot, kRows>(weights, groups, rows, inputs.stride(), offsets, tile);
  for (int r = 0; r < kRows; ++r) {
    Floats results_of_row[kVectors];
    for (int v = 0; v < kVectors; ++v) results_of_row[v] = as_floats(tile[r][v]);
    const float scale = panel.scales == nullptr ? 1.0f : inputs.scales()[row + r];
    finish_row(results_of_row, scale, panel, results + (row + r) * stride);
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

template <typename Visitor>
void with_dot(Precision precision, Visitor visit) {
  switch (precision) {
    case Precision::float32: return visit(Float32Dot{});
    case Precision::bfloat16: return visit(BFloat16Dot{});
    case Precision::int8: return visit(Int8Dot{});
  }
}

uint16_t to_bfloat16(float number) { return floats_to_bfloat16(spread(number))[0]; }

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
      if constexpr (std::is_same_v<Dot, Int8Dot>) {
        scales_.data()[row] = scale_of(rows, columns);
        quantise(rows, columns, scales_.data()[row], out);
      } else if constexpr (std::is_same_v<Dot, BFloat16Dot> && std::is_same_v<Input, float>) {
        for (int column = 0; column < columns; ++column) {
          const int32_t word = int32_t{to_bfloat16(rows[column])} << 16;
          out[column] = load<float>(&word);
        }
      } else {
        copy_row(rows, columns, out);
      }
      std::fill(out + columns, out + stride_, Input{});
    }
  });
}

Matrix::Matrix(Precision precision, const Dense& dense)
    : precision_(precision), outputs_(dense.outputs), inputs_(dense.inputs) {
  const int64_t padded = rounded_up(outputs_, kPanel);
  if (!dense.bias.empty()) {
    bias_.resize(padded);
    std::copy(dense.bias.begin(), dense.bias.end(), bias_.data());
  }
  with_dot(precision, [&](auto dot) { pack<decltype(dot)>(dense); });
}

template <typename Dot>
void Matrix::pack(const Dense& dense) {
  using Weight = typename Dot::Weight;
  constexpr bool is_int8 = std::is_same_v<Dot, Int8Dot>;
  const int64_t padded = rounded_up(outputs_, kPanel);
  groups_ = rounded_up(inputs_, Dot::kGroup) / Dot::kGroup;
  packed_.resize(padded * groups_ * Dot::kGroup * sizeof(Weight));
  if constexpr (is_int8) {
    scales_.resize(padded);
    offsets_.resize(padded);
  }
  std::vector<Weight> row(inputs_);
  std::vector<int16_t> integers(inputs_);
  auto* packed = reinterpret_cast<Weight*>(packed_.data());
  for (int64_t output = 0; output < outputs_; ++output) {
    const float* weights = dense.weights.data() + output * inputs_;
    if constexpr (is_int8) {
      const float scale = scales_.data()[output] = scale_of(weights, static_cast<int>(inputs_));
      int32_t total = 0;
      for (int64_t input = 0; input < inputs_; ++input) {
        row[input] = static_cast<int8_t>(std::nearbyint(weights[input] / scale));
        total += row[input];
      }
      offsets_.data()[output] = -Dot::kInputOffset * total;
    } else if constexpr (std::is_same_v<Weight, float>) {
      std::copy(weights, weights + inputs_, row.begin());
    } else {
      std::transform(weights, weights + inputs_, row.begin(), to_bfloat16);
    }
    const int64_t panel = output / kPanel, column = output % kPanel;
    for (int64_t input = 0; input < inputs_; ++input) {
      const int64_t group = panel * groups_ + input / Dot::kGroup;
      packed[(group * kPanel + column) * Dot::kGroup + input % Dot::kGroup] = row[input];
    }
  }
}

void Matrix::multiply(const Inputs& inputs, float* results, int64_t stride, Finish finish) const {
  with_dot(precision_, [&](auto dot) { multiply_with<decltype(dot)>(inputs, results, stride, finish); });
}

template <typename Dot>
void Matrix::multiply_with(const Inputs& inputs, float* results, int64_t stride, Finish finish) const {
  const auto* packed = reinterpret_cast<const typename Dot::Weight*>(packed_.data());
  const int64_t panel_size = groups_ * Dot::kGroup * kPanel;
  for (int first = 0; first < inputs.count(); first += kRowsAtOnce) {
    const int rows = std::min(kRowsAtOnce, inputs.count() - first);
    const int blocks = (rows + kMostRows - 1) / kMostRows;
    for (int64_t output = 0; output < outputs_; output += kPanel) {
      const Panel panel{scales_.data() == nullptr ? nullptr : scales_.data() + output,
                        bias_.data() == nullptr ? nullptr : bias_.data() + output,
                        static_cast<int>(std::min<int64_t>(kPanel, outputs_ - output)), finish};
      const int32_t* offsets = offsets_.data() == nullptr ? nullptr : offsets_.data() + output;
      for (int block = 0, row = first; block < blocks; ++block) {
        // Blocks of nearly equal height: a last one of a single row would waste most of its loads.
        const int height = (rows - (row - first)) / (blocks - block);
        multiply_rows<Dot>(height, packed + output / kPanel * panel_size, groups_, inputs, row, offsets, panel,
                           results + output, stride);
        row += height;
      }
    }
  }
}

}  // namespace dragoman

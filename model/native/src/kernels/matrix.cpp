#include "kernels/matrix.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/amx_tiles.h"

namespace dragoman {
namespace {

constexpr float kMaxInt8 = 127.0f;
constexpr float kMinMagnitude = 1e-12f;

// The largest magnitude, or NaN if the row has one: the bits of NaN, read as an integer, exceed all others.
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

// The scale of a row's integers: the largest magnitude becomes 127.
float scale_of(const float* row, int columns) {
  const float magnitude = largest_magnitude(row, columns);
  return (magnitude < kMinMagnitude ? kMinMagnitude : magnitude) / kMaxInt8;  // NaN stays NaN
}

template <typename Dot>
void round_row(const float* row, int columns, float scale, typename Dot::Input* out) {
  int column = 0;
  for (; column + kLanes <= columns; column += kLanes)
    store(out + column, Dot::round_inputs(floats(row + column), scale));
  if (column == columns) return;
  float rest[kLanes] = {};
  std::copy(row + column, row + columns, rest);
  const auto last = Dot::round_inputs(floats(rest), scale);
  std::memcpy(out + column, &last, (columns - column) * sizeof(*out));
}

// kMaxBlockRows × kVectors sums, kVectors vectors of weights and one broadcast input fill the registers.
constexpr int kMaxBlockRows = 6;
// With several rows the processor's own prefetching does not keep up with the weights.
constexpr int kBytesAhead = 4096;
// The inputs of this many rows stay in the L2 cache while all panels are read.
constexpr int kRowsPerPass = 96;

// Writes the products of kRows rows with one panel of weights to `tile`. The sums stay in registers.
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
#pragma GCC unroll 4
  for (int64_t group = 0; group < groups; ++group) {
    decltype(Dot::load_weights(panel)) weights[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const auto* vector = panel + v * kLanes * Dot::kGroup;
      if constexpr (kRows > 1) __builtin_prefetch(reinterpret_cast<const char*>(vector) + kBytesAhead);
      weights[v] = Dot::load_weights(vector);
    }
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const auto group_inputs = Dot::broadcast_group(inputs + row * stride);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[row][v] = Dot::add(sums[row][v], group_inputs, weights[v]);
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

// What turns the sums of a panel into results.
struct Panel {
  const int32_t* offsets;  // the start of the sums; null: zero
  const float* scales;     // of the weights; null unless int8
  const float* bias;
  int columns;  // number of results, at most kPanel
  Epilogue epilogue;
};

// Stores the results of some rows and a whole panel.
template <typename Dot, Store kStore, typename Activate>
void store_tile(const typename Dot::Sums* tile, int rows, const float* row_scales, const Panel& panel, float* out,
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
      float* to = out + row * stride + v * kLanes;
      if constexpr (kStore == Store::adds) result += floats(to);
      if constexpr (kStore == Store::multiplies) result *= floats(to);
      store(to, result);
    }
  }
}

// Inlined, so that the caller's number of rows is a constant and the sums stay in registers.
template <typename Dot, typename... Arguments>
[[gnu::always_inline]] inline void store_panel(const Epilogue& epilogue, const Arguments&... arguments) {
  if (epilogue.store == Store::adds) return store_tile<Dot, Store::adds>(arguments..., Identity{});
  with_activation(epilogue.activation, [&](auto activate) {
    epilogue.store == Store::multiplies ? store_tile<Dot, Store::multiplies>(arguments..., activate)
                                        : store_tile<Dot, Store::replaces>(arguments..., activate);
  });
}

// Stores the results of some rows and the last panel, which may have fewer than kPanel columns.
template <typename Dot>
void store_last_panel(const typename Dot::Sums* tile, int rows, const float* row_scales, const Panel& panel, float* out,
                      int64_t stride) {
  float results[kMaxBlockRows * kPanel];
  store_panel<Dot>({Store::replaces, panel.epilogue.activation}, tile, rows, row_scales, panel, &results[0],
                   int64_t{kPanel});
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < panel.columns; ++column) {
      const float result = results[row * kPanel + column];
      float& to = out[row * stride + column];
      switch (panel.epilogue.store) {
        case Store::replaces: to = result; break;
        case Store::adds: to += result; break;
        case Store::multiplies: to *= result; break;
      }
    }
  }
}

template <typename Dot>
[[gnu::always_inline]] inline void store_results(const typename Dot::Sums* tile, int rows, const float* row_scales,
                                                 const Panel& panel, float* out, int64_t stride) {
  if (panel.columns < kPanel) {
    store_last_panel<Dot>(tile, rows, row_scales, panel, out, stride);
  } else {
    store_panel<Dot>(panel.epilogue, tile, rows, row_scales, panel, out, stride);
  }
}

template <typename Dot, int kRows>
void multiply_block(const typename Dot::Weight* weights, int64_t groups, const Inputs& inputs, int first,
                    const Panel& panel, float* results, int64_t stride) {
  typename Dot::Sums tile[kRows][kVectors];
  const auto* rows = static_cast<const typename Dot::Input*>(inputs.data()) + first * inputs.stride();
  sum_block<Dot, kRows>(weights, groups, rows, inputs.stride(), panel.offsets, tile);
  store_results<Dot>(tile[0], kRows, inputs.scales() + first, panel, results + first * stride, stride);
}

// Calls multiply_block<Dot, rows>.
template <typename Dot, int kRows = kMaxBlockRows, typename... Arguments>
void multiply_rows(int rows, const Arguments&... arguments) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return multiply_rows<Dot, kRows - 1>(rows, arguments...);
  }
  multiply_block<Dot, kRows>(arguments...);
}

#if defined(__AMX_TILE__)

// With fewer rows, vector instructions are faster than tiles. Only integer products choose by the number of rows: their
// sums are exact. Sums of floats depend on the order of summation, which must not depend on the number of rows.
constexpr int kMinTileRows = 4;

template <typename Dot>
constexpr bool kHasTiles = sizeof(typename Dot::Weight) * Dot::kGroup == sizeof(int32_t) && Dot::kGroup > 1;

template <typename Dot>
constexpr TileNumbers kTileNumbers = Dot::kHasScales ? TileNumbers::bytes : TileNumbers::bfloat16;

alignas(kCacheLine) constexpr int32_t kZeros[kPanel] = {};

// Stores the results of a strip of rows and a panel, except those of the first `skipped` rows.
template <typename Dot>
void multiply_strip(const typename Dot::Weight* weights, int64_t groups, const Inputs& inputs, int first, int rows,
                    int skipped, const Panel& panel, float* results, int64_t stride, bool prefetches) {
  using Input = typename Dot::Input;
  static_assert(kPanel == 4 * kTileSide);
  alignas(kCacheLine) typename Dot::Sums tile[kTileSide][kVectors];
  const void* start = panel.offsets != nullptr ? static_cast<const void*>(panel.offsets) : kZeros;
  const auto* left = static_cast<const Input*>(inputs.data()) + first * inputs.stride();
  const TileProduct product{left,
                            static_cast<int64_t>(inputs.stride() * sizeof(Input)),
                            weights,
                            kPanel * sizeof(int32_t),
                            groups,
                            start,
                            0,
                            &tile[0][0],
                            sizeof(tile[0])};
  prefetches ? multiply_tile_strip<kTileNumbers<Dot>, true>(product)
             : multiply_tile_strip<kTileNumbers<Dot>, false>(product);
  for (int row = skipped; row < rows;) {
    const int count = panel.columns < kPanel ? std::min(rows - row, kMaxBlockRows) : rows - row;
    store_results<Dot>(tile[row], count, inputs.scales() + first + row, panel, results + (first + row) * stride,
                       stride);
    row += count;
  }
}

#endif

}  // namespace

void Inputs::prepare(Precision precision, const float* rows, int count, int columns, int64_t stride) {
  count_ = count;
  scales_.resize(count);
  with_dot(precision, [&](auto dot) {
    using Dot = decltype(dot);
    using Input = typename Dot::Input;
    stride_ = round_up(columns, Dot::kGroup);
    data_.resize(count * stride_ * sizeof(Input));
    auto* out = reinterpret_cast<Input*>(data_.data());
    for (int row = 0; row < count; ++row, rows += stride, out += stride_) {
      float& scale = scales_.data()[row];
      scale = Dot::kHasScales ? scale_of(rows, columns) : 1.0f;
      round_row<Dot>(rows, columns, scale, out);
      std::fill(out + columns, out + stride_,
                Input{});  // these are multiplied with weights of zero, but must not be NaN
    }
  });
}

Matrix::Matrix(Precision precision, int64_t outputs, int64_t inputs, WeightMemory& memory)
    : precision_(precision), outputs_(outputs), inputs_(inputs) {
  const int64_t padded = round_up(outputs_, kPanel);
  bias_ = memory.take<float>(padded);
  with_dot(precision, [&](auto dot) {
    using Dot = decltype(dot);
    groups_ = round_up(inputs_, Dot::kGroup) / Dot::kGroup;
    packed_ = memory.take<uint8_t>(padded * groups_ * Dot::kGroup * sizeof(typename Dot::Weight));
    if constexpr (Dot::kHasScales) {
      scales_ = memory.take<float>(padded);
      offsets_ = memory.take<int32_t>(padded);
    }
  });
}

void Matrix::set_output(int64_t output, const float* weights) {
  with_dot(precision_, [&](auto dot) {
    using Dot = decltype(dot);
    const float scale = Dot::kHasScales ? scale_of(weights, static_cast<int>(inputs_)) : 1.0f;
    pack<Dot>(output, scale, [=](int64_t input) { return Dot::round_weight(weights[input], scale); });
  });
}

void Matrix::set_output(int64_t output, const int8_t* weights, float scale) {
  pack<Int8Dot>(output, scale, [=](int64_t input) { return weights[input]; });
}

template <typename Dot, typename Weights>
void Matrix::pack(int64_t output, float scale, Weights weight_of) {
  using Weight = typename Dot::Weight;
  Weight* group = reinterpret_cast<Weight*>(packed_.data()) + first_weight<Dot>(output);
  int32_t total = 0;
  for (int64_t first = 0; first < inputs_; first += Dot::kGroup, group += kPanel * Dot::kGroup) {
    for (int64_t i = 0; i < std::min<int64_t>(Dot::kGroup, inputs_ - first); ++i) {
      group[i] = weight_of(first + i);
      total += static_cast<int32_t>(group[i]);
    }
  }
  if constexpr (Dot::kHasScales) {
    scales_.data()[output] = scale;
    offsets_.data()[output] = -Dot::kInputOffset * total;
  }
}

void Matrix::copy_weights(int64_t output, float* weights) const {
  with_dot(precision_, [&](auto dot) {
    using Dot = decltype(dot);
    const auto* group = reinterpret_cast<const typename Dot::Weight*>(packed_.data()) + first_weight<Dot>(output);
    const float scale = Dot::kHasScales ? scales_.data()[output] : 1.0f;
    for (int64_t first = 0; first < inputs_; first += Dot::kGroup, group += kPanel * Dot::kGroup) {
      for (int64_t i = 0; i < std::min<int64_t>(Dot::kGroup, inputs_ - first); ++i) {
        weights[first + i] = to_float(group + i) * scale;
      }
    }
  });
}

// The index of an output's first group of weights. The next groups follow one panel width apart.
template <typename Dot>
int64_t Matrix::first_weight(int64_t output) const {
  return (output / kPanel * groups_ * kPanel + output % kPanel) * Dot::kGroup;
}

Matrix Matrix::without_outputs(int64_t max_outputs) const {
  Matrix matrix;
  matrix.precision_ = precision_;
  matrix.inputs_ = inputs_;
  matrix.groups_ = groups_;
  const int64_t padded = round_up(max_outputs, kPanel), all = round_up(outputs_, kPanel);
  matrix.packed_.resize(packed_.size() / all * padded);
  if (scales_.size() > 0) matrix.scales_.resize(padded);
  if (bias_.size() > 0) matrix.bias_.resize(padded);
  if (offsets_.size() > 0) matrix.offsets_.resize(padded);
  return matrix;
}

void Matrix::copy_output(const Matrix& other, int64_t from, int64_t to) {
  with_dot(precision_, [&](auto dot) {
    using Dot = decltype(dot);
    using Weight = typename Dot::Weight;
    const auto* source = reinterpret_cast<const Weight*>(other.packed_.data()) + first_weight<Dot>(from);
    auto* target = reinterpret_cast<Weight*>(packed_.data()) + first_weight<Dot>(to);
    for (int64_t group = 0; group < groups_; ++group) {
      std::copy_n(source, Dot::kGroup, target);
      source += kPanel * Dot::kGroup;
      target += kPanel * Dot::kGroup;
    }
  });
  if (scales_.size() > 0) scales_.data()[to] = other.scales_.data()[from];
  if (bias_.size() > 0) bias_.data()[to] = other.bias_.data()[from];
  if (offsets_.size() > 0) offsets_.data()[to] = other.offsets_.data()[from];
  outputs_ = std::max(outputs_, to + 1);
}

void Matrix::multiply(const Inputs& inputs, float* results, int64_t stride, Epilogue epilogue) const {
  with_dot(precision_, [&](auto dot) { multiply_with<decltype(dot)>(inputs, results, stride, epilogue); });
}

template <typename Dot, typename Visitor>
void Matrix::for_each_panel(Epilogue epilogue, Visitor visit) const {
  const auto part = [](const auto& buffer, int64_t output) {
    return buffer.size() == 0 ? nullptr : buffer.data() + output;
  };
  const auto* weights = reinterpret_cast<const typename Dot::Weight*>(packed_.data());
  for (int64_t output = 0; output < outputs_; output += kPanel, weights += groups_ * Dot::kGroup * kPanel) {
    const int columns = static_cast<int>(std::min<int64_t>(kPanel, outputs_ - output));
    visit(weights, Panel{part(offsets_, output), part(scales_, output), bias_.data() + output, columns, epilogue},
          output);
  }
}

template <typename Dot>
void Matrix::multiply_with(const Inputs& inputs, float* results, int64_t stride, Epilogue epilogue) const {
#if defined(__AMX_TILE__)
  if constexpr (kHasTiles<Dot>) {
    const bool pays = !Dot::kHasScales || inputs.count() >= kMinTileRows;
    if (pays && groups_ % kTileSide == 0) return multiply_by_tiles<Dot>(inputs, results, stride, epilogue);
  }
#endif
  for (int first = 0; first < inputs.count(); first += kRowsPerPass) {
    const int end = std::min(first + kRowsPerPass, inputs.count());
    for_each_panel<Dot>(epilogue, [&](const auto* weights, const Panel& panel, int64_t output) {
      int blocks = (end - first + kMaxBlockRows - 1) / kMaxBlockRows;
      for (int row = first; blocks > 0; --blocks) {
        // Blocks have nearly equal heights: a last block of a single row would waste most of its loads.
        const int height = (end - row) / blocks;
        multiply_rows<Dot>(height, weights, groups_, inputs, row, panel, results + output, stride);
        row += height;
      }
    });
  }
}

#if defined(__AMX_TILE__)

template <typename Dot>
void Matrix::multiply_by_tiles(const Inputs& inputs, float* results, int64_t stride, Epilogue epilogue) const {
  const int count = inputs.count();
  for (int first = 0; first < count; first += kRowsPerPass) {
    const int rows = std::min(kRowsPerPass, count - first);
    // All strips have the same height, because configuring tiles is slow. The last one may overlap the one before.
    const int strips = (rows + kTileSide - 1) / kTileSide, height = (rows + strips - 1) / strips;
    const TileScope scope(height, TileUse::strip);
    for_each_panel<Dot>(epilogue, [&](const auto* weights, const Panel& panel, int64_t output) {
      for (int strip = 0; strip < strips; ++strip) {
        const int start = std::min(strip * height, rows - height);
        multiply_strip<Dot>(weights, groups_, inputs, first + start, height, strip * height - start, panel,
                            results + output, stride, strip == 0);
      }
    });
  }
}

#endif

}  // namespace dragoman

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/amx_tiles.h"
#include "kernels/buffer.h"
#include "kernels/matrix.h"
#include "kernels/panels.h"

namespace dragoman {
namespace {

// A block of kMostRows × kVectors sums, the weights and one spread input fill the registers.
constexpr int kMostRows = 6;
// Inputs of so many rows stay in the second-level cache while all panels pass.
constexpr int kRowsAtOnce = 96;

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

template <typename Dot>
void finish_rows(const typename Dot::Sums* tile, int rows, const float* row_scales, const Panel& panel, float* out,
                 int64_t stride) {
  if (panel.columns < kPanel) {
    finish_part<Dot>(tile, rows, row_scales, panel, out, stride);
  } else {
    finish_panel<Dot>(panel.finish, tile, rows, row_scales, panel, out, stride);
  }
}

template <typename Dot, int kRows>
void multiply_block(const typename Dot::Weight* weights, int64_t groups, const Inputs& inputs, int first,
                    const Panel& panel, float* results, int64_t stride) {
  typename Dot::Sums tile[kRows][kVectors];
  const auto* rows = static_cast<const typename Dot::Input*>(inputs.data()) + first * inputs.stride();
  sum_block<Dot, kRows>(weights, groups, rows, inputs.stride(), panel.offsets, tile);
  finish_rows<Dot>(tile[0], kRows, inputs.scales() + first, panel, results + first * stride, stride);
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

#if defined(__AMX_TILE__)

// Rows that share a panel of weights, from which on tiles are faster than vectors for integers: both give the same
// sums. Sums of floats depend on their order, so that tiles add up all or none of a matrix's.
constexpr int kFewestRowsOfTiles = 12;

template <typename Dot>
constexpr bool kHasTiles = sizeof(typename Dot::Weight) * Dot::kGroup == sizeof(int32_t) && Dot::kGroup > 1;

template <typename Dot>
constexpr TileNumbers kTileNumbers = Dot::kHasScales ? TileNumbers::bytes : TileNumbers::bfloat16;

alignas(kCacheLine) constexpr int32_t kZeros[kPanel] = {};

// Results of a block of rows and a panel, but for the first `skipped` rows.
template <typename Dot>
void multiply_block_by_tiles(const typename Dot::Weight* weights, int64_t groups, const Inputs& inputs, int first,
                             int rows, int skipped, const Panel& panel, float* results, int64_t stride) {
  using Input = typename Dot::Input;
  alignas(kCacheLine) typename Dot::Sums tile[kBlockSide][kVectors];
  const void* start = panel.offsets != nullptr ? static_cast<const void*>(panel.offsets) : kZeros;
  const Input* left = static_cast<const Input*>(inputs.data()) + first * inputs.stride();
  for (int column = 0; column < kPanel; column += kBlockSide) {
    const TileProduct product{left,
                              static_cast<int64_t>(inputs.stride() * sizeof(Input)),
                              weights + column * Dot::kGroup,
                              kPanel * sizeof(int32_t),
                              groups,
                              static_cast<const int32_t*>(start) + column,
                              0,
                              &tile[0][column / kLanes],
                              sizeof(tile[0])};
    multiply_tile_block<kTileNumbers<Dot>>(product, rows, kBlockSide);
  }
  for (int row = skipped; row < rows;) {
    const int count = panel.columns < kPanel ? std::min(rows - row, kMostRows) : rows - row;
    finish_rows<Dot>(tile[row], count, inputs.scales() + first + row, panel, results + (first + row) * stride, stride);
    row += count;
  }
}

#endif

}  // namespace

void Matrix::multiply(const Inputs& inputs, float* results, int64_t stride, Finish finish) const {
  with_dot(precision_, [&](auto dot) { multiply_with<decltype(dot)>(inputs, results, stride, finish); });
}

template <typename Dot, typename Visitor>
void Matrix::for_each_panel(Finish finish, Visitor visit) const {
  const auto part = [](const auto& buffer, int64_t output) {
    return buffer.size() == 0 ? nullptr : buffer.data() + output;
  };
  const auto* weights = reinterpret_cast<const typename Dot::Weight*>(packed_.data());
  for (int64_t output = 0; output < outputs_; output += kPanel, weights += groups_ * Dot::kGroup * kPanel) {
    const int columns = static_cast<int>(std::min<int64_t>(kPanel, outputs_ - output));
    visit(weights, Panel{part(offsets_, output), part(scales_, output), bias_.data() + output, columns, finish},
          output);
  }
}

template <typename Dot>
void Matrix::multiply_with(const Inputs& inputs, float* results, int64_t stride, Finish finish) const {
#if defined(__AMX_TILE__)
  if constexpr (kHasTiles<Dot>) {
    const bool pays = !Dot::kHasScales || inputs.count() >= kFewestRowsOfTiles;
    if (pays && groups_ % kTileSide == 0) return multiply_by_tiles<Dot>(inputs, results, stride, finish);
  }
#endif
  for (int first = 0; first < inputs.count(); first += kRowsAtOnce) {
    const int end = std::min(first + kRowsAtOnce, inputs.count());
    for_each_panel<Dot>(finish, [&](const auto* weights, const Panel& panel, int64_t output) {
      int blocks = (end - first + kMostRows - 1) / kMostRows;
      for (int row = first; blocks > 0; --blocks) {
        // Blocks of nearly equal height: a last one of a single row would waste most of its loads.
        const int height = (end - row) / blocks;
        multiply_rows<Dot>(height, weights, groups_, inputs, row, panel, results + output, stride);
        row += height;
      }
    });
  }
}

#if defined(__AMX_TILE__)

template <typename Dot>
void Matrix::multiply_by_tiles(const Inputs& inputs, float* results, int64_t stride, Finish finish) const {
  const int count = inputs.count();
  for (int first = 0; first < count; first += kRowsAtOnce) {
    const int rows = std::min(kRowsAtOnce, count - first);
    // Blocks of one height, because setting up tiles for another takes long; the last one may begin in that before it.
    const int blocks = (rows + kBlockSide - 1) / kBlockSide, height = (rows + blocks - 1) / blocks;
    const TileScope scope(height);
    for_each_panel<Dot>(finish, [&](const auto* weights, const Panel& panel, int64_t output) {
      for (int block = 0; block < blocks; ++block) {
        const int start = std::min(block * height, rows - height);
        multiply_block_by_tiles<Dot>(weights, groups_, inputs, first + start, height, block * height - start, panel,
                                     results + output, stride);
      }
    });
  }
}

#endif

}  // namespace dragoman

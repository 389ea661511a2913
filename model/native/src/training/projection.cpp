#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/transpose.h"
#include "training/bfloat16_matmul.h"
#include "training/operators.h"
#include "training/parallel.h"

namespace dragoman {

#if defined(__AVX512BF16__)

namespace {

constexpr int64_t kInnerBlock = 512;      // words of the inner dimension that are added before sums are stored
constexpr int kManyBlocksPerThread = 16;  // enough to keep all threads busy to the end

constexpr std::align_val_t kLineAlignment{kCacheLine};

struct Release {
  void operator()(uint32_t* words) const { operator delete[](words, kLineAlignment); }
};
using Panels = std::unique_ptr<uint32_t[], Release>;

Panels panels_for(int64_t words) { return Panels(new (kLineAlignment) uint32_t[words]); }

// The words, padded to a multiple, of a number of elements along the inner dimension.
int64_t words_of(int64_t numbers) { return round_up((numbers + 1) / 2, kInnerMultiple); }

int64_t num_panels(int64_t columns) { return (columns + kPanelColumns - 1) / kPanelColumns; }

// Packs a right factor whose inner dimension is the rows of `from`, padded with zeros to `words`.
template <typename Number>
Panels pack_panels(const Number* from, int64_t rows, int64_t width, int64_t words, int threads) {
  Panels panels = panels_for(num_panels(width) * words * kPanelColumns);
  for_each_part(static_cast<int>(num_panels(width)), threads, [&](int panel) {
    const int64_t column = int64_t{panel} * kPanelColumns, columns = std::min<int64_t>(kPanelColumns, width - column);
    uint32_t* to = panels.get() + column * words;
    uint32_t* const end = to + words * kPanelColumns;
    for (int64_t row = 0; row < rows; row += 2, to += kPanelColumns) {
      const Number* lower = from + row * width + column;
      interleave(lower, row + 1 < rows ? lower + width : nullptr, columns, to);
    }
    std::fill(to, end, 0);
  });
  return panels;
}

// Packs a panel of the right factor whose columns are rows of `from`.
void pack_transposed_panel(const float* from, int64_t columns, int64_t width, uint32_t* to) {
  for (int64_t column = 0; column < columns; column += kLanes) {
    for (int64_t start = 0; start < width; start += 2 * kLanes) {
      __m512i block[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const float* numbers = from + (column + i) * width + start;
        block[i] = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(numbers + kLanes), _mm512_loadu_ps(numbers));
      }
      transpose(block);
      for (int i = 0; i < kLanes; ++i) _mm512_storeu_si512(to + (start / 2 + i) * kPanelColumns + column, block[i]);
    }
  }
}

// Some rows of the left factor. If `padded` is not null, they are copied to it and padded with zeros to `inner`.
LeftWords left_rows(const uint16_t* left, int64_t words, int64_t inner, Range rows, uint32_t* padded) {
  const LeftWords all{left, words, 1};
  if (padded == nullptr) return all.at(rows.begin, 0);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    uint32_t* const to = padded + row * inner;
    std::memcpy(to, all.address(row, 0), words * sizeof(uint32_t));
    std::fill(to + words, to + inner, 0);
  }
  return LeftWords{padded, inner, 1}.at(rows.begin, 0);
}

// to (rows, columns) = left · right + start. The inner dimension has `inner` words, of which left rows hold `words`.
void multiply_words(const uint16_t* from, int64_t words, const uint32_t* right, const float* start, int64_t rows,
                    int64_t inner, int64_t columns, int threads, uint16_t* to) {
  if (rows == 0) return;
  const int64_t height = std::min(kPartRows, round_up((rows + threads - 1) / threads, kBlockRows));
  const int parts = static_cast<int>((rows + height - 1) / height);
  const bool is_one_block = inner <= kInnerBlock;
  const std::unique_ptr<float[]> partial_sums(is_one_block ? nullptr : new float[rows * columns]);
  const Panels padded = words == inner ? Panels() : panels_for(rows * inner);
  for_each_part(parts, threads, [&](int part) {
    [[maybe_unused]] const ProductScope scope;
    const int64_t first = part * height, count = std::min(height, rows - first);
    float* sums = is_one_block ? nullptr : partial_sums.get() + first * columns;
    const LeftWords left = left_rows(from, words, inner, {first, first + count}, padded.get());
    for (int64_t word = 0; word < inner; word += kInnerBlock) {
      const int64_t block = std::min(kInnerBlock, inner - word);
      const TileSums out{word == 0 ? start : nullptr, sums, columns,
                         word + block == inner ? to + first * columns : nullptr, columns};
      for (int64_t panel = 0; panel < num_panels(columns); ++panel) {
        const int64_t column = panel * kPanelColumns;
        multiply_panel(left.at(0, word), right + (panel * inner + word) * kPanelColumns, count, block,
                       std::min<int64_t>(kPanelColumns, columns - column), out.at(0, column));
      }
    }
  });
}

// Adds some columns of all rows to `totals`.
void add_rows(const uint16_t* from, int64_t width, int64_t rows, int64_t columns, float* totals) {
  for (int64_t row = 0; row < rows; ++row, from += width) {
    for (int64_t i = 0; i < columns; i += kLanes) store(totals + i, floats(totals + i) + floats(from + i));
  }
}

// Computes a block of the weight's gradient: the rows of some outputs, the columns of some panels of inputs.
void compute_weight_gradient(const Projection& all, const uint16_t* output_gradient, const uint32_t* inputs,
                             const float* zeros, int64_t output, Range panels, float* weight_gradient,
                             float* bias_gradient) {
  const int64_t count = std::min(kPartOutputs, all.outputs - output), inner = words_of(all.rows);
  alignas(kCacheLine) uint32_t gradients[kGradientWords * kPartOutputs];
  if (bias_gradient != nullptr) std::fill(bias_gradient + output, bias_gradient + output + count, 0.0f);
  for (int64_t word = 0; word < inner; word += kGradientWords) {
    const int64_t block = std::min(kGradientWords, inner - word);
    const Range rows{2 * word, std::min(2 * (word + block), all.rows)};
    const uint16_t* block_gradient = output_gradient + rows.begin * all.outputs + output;
    if (bias_gradient != nullptr)
      add_rows(block_gradient, all.outputs, rows.end - rows.begin, count, bias_gradient + output);
    const LeftWords left = pack_left(block_gradient, all.outputs, rows.end - rows.begin, count, gradients);
    const TileSums out{word == 0 ? zeros : nullptr, weight_gradient + output * all.inputs, all.inputs, nullptr, 0};
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const int64_t column = panel * kPanelColumns;
      multiply_panel(left, inputs + (panel * inner + word) * kPanelColumns, count, block,
                     std::min<int64_t>(kPanelColumns, all.inputs - column), out.at(0, column));
    }
  }
}

}  // namespace

bool has_bfloat16_products() { return true; }

void project(const Projection& all, const uint16_t* inputs, uint16_t* outputs) {
  const int64_t inner = all.inputs / 2, panels = num_panels(all.outputs);
  const Panels weight = panels_for(panels * inner * kPanelColumns);
  for_each_part(static_cast<int>(panels), all.threads, [&](int panel) {
    const int64_t output = int64_t{panel} * kPanelColumns,
                  count = std::min<int64_t>(kPanelColumns, all.outputs - output);
    pack_transposed_panel(all.weight + output * all.inputs, count, all.inputs,
                          weight.get() + panel * inner * kPanelColumns);
  });
  const std::vector<float> zeros(all.bias == nullptr ? all.outputs : 0);
  const float* start = all.bias == nullptr ? zeros.data() : all.bias;
  multiply_words(inputs, inner, weight.get(), start, all.rows, inner, all.outputs, all.threads, outputs);
}

void project_gradient(const Projection& all, const uint16_t* output_gradient, uint16_t* input_gradient) {
  const int64_t inner = words_of(all.outputs);
  const Panels weight = pack_panels(all.weight, all.outputs, all.inputs, inner, all.threads);
  const std::vector<float> zeros(all.inputs);
  multiply_words(output_gradient, all.outputs / 2, weight.get(), zeros.data(), all.rows, inner, all.inputs, all.threads,
                 input_gradient);
}

void project_weight_gradient(const Projection& all, const uint16_t* output_gradient, const uint16_t* inputs,
                             float* weight_gradient, float* bias_gradient) {
  if (all.rows == 0) {
    std::fill_n(weight_gradient, all.outputs * all.inputs, 0.0f);
    if (bias_gradient != nullptr) std::fill_n(bias_gradient, all.outputs, 0.0f);
    return;
  }
  const int64_t inner = words_of(all.rows), panels = num_panels(all.inputs);
  const Panels packed = pack_panels(inputs, all.rows, all.inputs, inner, all.threads);
  const std::vector<float> zeros(all.inputs);
  // A few large parts would leave threads idle at the end. Groups of panels make more parts, and each group packs the
  // gradients again.
  const int blocks = static_cast<int>((all.outputs + kPartOutputs - 1) / kPartOutputs);
  const int groups = blocks >= kManyBlocksPerThread * all.threads ? 1 : std::min(all.threads, static_cast<int>(panels));
  for_each_part(blocks * groups, all.threads, [&](int part) {
    [[maybe_unused]] const ProductScope scope;
    const int group = part / blocks;
    compute_weight_gradient(all, output_gradient, packed.get(), zeros.data(), (part % blocks) * kPartOutputs,
                            range_of_part(panels, group, groups), weight_gradient,
                            group == 0 ? bias_gradient : nullptr);
  });
}

#else

bool has_bfloat16_products() { return false; }
void project(const Projection&, const uint16_t*, uint16_t*) {}
void project_gradient(const Projection&, const uint16_t*, uint16_t*) {}
void project_weight_gradient(const Projection&, const uint16_t*, const uint16_t*, float*, float*) {}

#endif

}  // namespace dragoman

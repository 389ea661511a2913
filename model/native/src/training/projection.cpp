#include "training/projection.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/transpose.h"
#include "training/parallel.h"

#if defined(__AMX_BF16__)
#include "training/bfloat16_amx.h"
#elif defined(__AVX512BF16__)
#include "training/bfloat16_avx512.h"
#endif

namespace dragoman {

#if defined(__AVX512BF16__)

namespace {

constexpr int64_t kInnerBlock = 512;  // words of the inner dimension between two readings of the sums
constexpr int kManyBlocks = 16;       // for each thread

constexpr std::align_val_t kLineAlignment{kCacheLine};

struct Release {
  void operator()(uint32_t* words) const { operator delete[](words, kLineAlignment); }
};
using Panels = std::unique_ptr<uint32_t[], Release>;

Panels panels_for(int64_t words) { return Panels(new (kLineAlignment) uint32_t[words]); }

// Of so many numbers along the inner dimension.
int64_t words_of(int64_t numbers) { return rounded_up((numbers + 1) / 2, kWordsOfStep); }

int64_t num_panels(int64_t columns) { return (columns + kPanelColumns - 1) / kPanelColumns; }

// A panel of the right factor whose inner dimension runs over the rows of `from`; the last words may be zeros.
template <typename Number>
void lay_out_panel(const Number* from, int64_t rows, int64_t width, int64_t column, int64_t words, uint32_t* to) {
  uint32_t* const end = to + words * kPanelColumns;
  const int64_t columns = std::min<int64_t>(kPanelColumns, width - column);
  for (int64_t row = 0; row < rows; row += 2, to += kPanelColumns) {
    const Number* lower = from + row * width + column;
    interleave(lower, row + 1 < rows ? lower + width : nullptr, columns, to);
  }
  std::fill(to, end, 0);
}

// A panel of the right factor whose inner dimension runs along the rows of `from`, which are its columns.
void lay_out_turned_panel(const float* from, int64_t columns, int64_t width, uint32_t* to) {
  for (int64_t column = 0; column < columns; column += kLanes) {
    for (int64_t start = 0; start < width; start += 2 * kLanes) {
      __m512i block[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const float* numbers = from + (column + i) * width + start;
        block[i] = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(numbers + kLanes), _mm512_loadu_ps(numbers));
      }
      turn(block);
      for (int i = 0; i < kLanes; ++i) _mm512_storeu_si512(to + (start / 2 + i) * kPanelColumns + column, block[i]);
    }
  }
}

// Some rows of the left factor; where the inner dimension ends in zeros that they lack, as copies in `room`.
LeftWords left_rows(const uint16_t* left, int64_t words, int64_t inner, Range rows, uint32_t* room) {
  const LeftWords all{left, words, 1};
  if (room == nullptr) return all.at(rows.begin, 0);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    uint32_t* const to = room + row * inner;
    std::memcpy(to, all.place(row, 0), words * sizeof(uint32_t));
    std::fill(to + words, to + inner, 0);
  }
  return LeftWords{room, inner, 1}.at(rows.begin, 0);
}

// to (rows, columns) = left · right + start, with `inner` words between them, of which the left rows have `words`.
void multiply_words(const uint16_t* from, int64_t words, const uint32_t* right, const float* start, int64_t rows,
                    int64_t inner, int64_t columns, int threads, uint16_t* to) {
  if (rows == 0) return;
  const int64_t height = std::min(kRowsOfBlock, rounded_up((rows + threads - 1) / threads, kRowsOfStep));
  const int parts = static_cast<int>((rows + height - 1) / height);
  const bool in_one_go = inner <= kInnerBlock;
  const std::unique_ptr<float[]> room(in_one_go ? nullptr : new float[rows * columns]);
  const Panels padded = words == inner ? Panels() : panels_for(rows * inner);
  for_each_part(parts, threads, [&](int part) {
    const ProductScope scope;
    const int64_t first = part * height, count = std::min(height, rows - first);
    float* sums = in_one_go ? nullptr : room.get() + first * columns;
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

// Adds some columns of all rows to their totals.
void add_up_rows(const uint16_t* from, int64_t width, int64_t rows, int64_t columns, float* totals) {
  for (int64_t row = 0; row < rows; ++row, from += width) {
    for (int64_t i = 0; i < columns; i += kLanes) store(totals + i, floats(totals + i) + floats(from + i));
  }
}

// A block of the weight's gradient: the rows of some outputs, the columns of some panels of inputs.
void add_up_block(const Projection& all, const uint16_t* slope, const uint32_t* inputs, const float* zeros,
                  int64_t output, Range panels, float* of_weight, float* of_bias) {
  const int64_t count = std::min(kOutputsOfPart, all.outputs - output), inner = words_of(all.rows);
  alignas(kCacheLine) uint32_t slopes[kWordsOfBlock * kOutputsOfPart];
  if (of_bias != nullptr) std::fill(of_bias + output, of_bias + output + count, 0.0f);
  for (int64_t word = 0; word < inner; word += kWordsOfBlock) {
    const int64_t block = std::min(kWordsOfBlock, inner - word);
    const Range rows{2 * word, std::min(2 * (word + block), all.rows)};
    const uint16_t* of_rows = slope + rows.begin * all.outputs + output;
    if (of_bias != nullptr) add_up_rows(of_rows, all.outputs, rows.end - rows.begin, count, of_bias + output);
    const LeftWords left = lay_out_left(of_rows, all.outputs, rows.end - rows.begin, count, slopes);
    const TileSums out{word == 0 ? zeros : nullptr, of_weight + output * all.inputs, all.inputs, nullptr, 0};
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const int64_t column = panel * kPanelColumns;
      multiply_panel(left, inputs + (panel * inner + word) * kPanelColumns, count, block,
                     std::min<int64_t>(kPanelColumns, all.inputs - column), out.at(0, column));
    }
  }
}

}  // namespace

bool has_bfloat16_products() { return true; }

void project(const Projection& all, const uint16_t* from, uint16_t* to) {
  const int64_t inner = all.inputs / 2, panels = num_panels(all.outputs);
  const Panels weight = panels_for(panels * inner * kPanelColumns);
  for_each_part(static_cast<int>(panels), all.threads, [&](int panel) {
    const int64_t output = int64_t{panel} * kPanelColumns,
                  count = std::min<int64_t>(kPanelColumns, all.outputs - output);
    lay_out_turned_panel(all.weight + output * all.inputs, count, all.inputs,
                         weight.get() + panel * inner * kPanelColumns);
  });
  const std::vector<float> zeros(all.bias == nullptr ? all.outputs : 0);
  const float* start = all.bias == nullptr ? zeros.data() : all.bias;
  multiply_words(from, inner, weight.get(), start, all.rows, inner, all.outputs, all.threads, to);
}

void project_gradient(const Projection& all, const uint16_t* slope, uint16_t* of_inputs) {
  const int64_t inner = words_of(all.outputs), panels = num_panels(all.inputs);
  const Panels weight = panels_for(panels * inner * kPanelColumns);
  for_each_part(static_cast<int>(panels), all.threads, [&](int panel) {
    lay_out_panel(all.weight, all.outputs, all.inputs, panel * kPanelColumns, inner,
                  weight.get() + panel * inner * kPanelColumns);
  });
  const std::vector<float> zeros(all.inputs);
  multiply_words(slope, all.outputs / 2, weight.get(), zeros.data(), all.rows, inner, all.inputs, all.threads,
                 of_inputs);
}

void project_weight_gradient(const Projection& all, const uint16_t* slope, const uint16_t* from, float* of_weight,
                             float* of_bias) {
  if (all.rows == 0) {
    std::fill_n(of_weight, all.outputs * all.inputs, 0.0f);
    if (of_bias != nullptr) std::fill_n(of_bias, all.outputs, 0.0f);
    return;
  }
  const int64_t inner = words_of(all.rows), panels = num_panels(all.inputs);
  const Panels inputs = panels_for(panels * inner * kPanelColumns);
  for_each_part(static_cast<int>(panels), all.threads, [&](int panel) {
    lay_out_panel(from, all.rows, all.inputs, panel * kPanelColumns, inner,
                  inputs.get() + panel * inner * kPanelColumns);
  });
  const std::vector<float> zeros(all.inputs);
  // A few large parts would leave threads without work at the end; slopes are laid out again for each group.
  const int blocks = static_cast<int>((all.outputs + kOutputsOfPart - 1) / kOutputsOfPart);
  const int groups = blocks >= kManyBlocks * all.threads ? 1 : std::min(all.threads, static_cast<int>(panels));
  for_each_part(blocks * groups, all.threads, [&](int part) {
    const ProductScope scope;
    const int group = part / blocks;
    add_up_block(all, slope, inputs.get(), zeros.data(), (part % blocks) * kOutputsOfPart,
                 share_of(panels, group, groups), of_weight, group == 0 ? of_bias : nullptr);
  });
}

#else

bool has_bfloat16_products() { return false; }
void project(const Projection&, const uint16_t*, uint16_t*) {}
void project_gradient(const Projection&, const uint16_t*, uint16_t*) {}
void project_weight_gradient(const Projection&, const uint16_t*, const uint16_t*, float*, float*) {}

#endif

}  // namespace dragoman

#include "bfloat16_product.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "bfloat16_tile.h"
#include "parallel.h"
#include "turn.h"

namespace dragoman {

#if defined(__AVX512BF16__)

namespace {

constexpr int64_t kRowsOfBlock = 72;    // rows of a product that a thread takes at once
constexpr int64_t kInnerBlock = 512;    // words of the inner dimension between two readings of the sums
constexpr int64_t kOutputsOfPart = 96;  // rows of a weight's gradient that a thread takes at once
constexpr int64_t kWordsOfBlock = 256;  // of which slopes are laid out at once, so that they stay in the cache
constexpr int kManyBlocks = 16;         // for each thread

using Panels = std::unique_ptr<uint32_t[]>;

Panels panels_for(int64_t words) { return Panels(new uint32_t[words]); }

int64_t num_panels(int64_t columns) { return (columns + kPanelColumns - 1) / kPanelColumns; }

// 16 words of two rows of bfloat16 numbers, the first row in the lower halves.
inline __m512i interleaved(__m256i lower, __m256i upper) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(lower), _mm512_slli_epi32(_mm512_cvtepu16_epi32(upper), 16));
}

inline __m256i halves(const uint16_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
inline __m256i halves(const float* from) { return (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from)); }

// Two rows, some of their columns; a row that is missing counts as zeros.
template <typename Number>
inline void interleave(const Number* lower, const Number* upper, int64_t columns, uint32_t* to) {
  for (int64_t i = 0; i < columns; i += kLanes) {
    const __m256i second = upper == nullptr ? _mm256_setzero_si256() : halves(upper + i);
    _mm512_storeu_si512(to + i, interleaved(halves(lower + i), second));
  }
}

// A panel of the right factor whose inner dimension runs over the rows of `from`.
template <typename Number>
void lay_out_panel(const Number* from, int64_t rows, int64_t width, int64_t column, uint32_t* to) {
  const int64_t columns = std::min<int64_t>(kPanelColumns, width - column);
  for (int64_t row = 0; row < rows; row += 2, to += kPanelColumns) {
    const Number* lower = from + row * width + column;
    interleave(lower, row + 1 < rows ? lower + width : nullptr, columns, to);
  }
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

// to (rows, columns) = left · right + start, with `inner` words between them.
void multiply_words(LeftWords left, const uint32_t* right, const float* start, int64_t rows, int64_t inner,
                    int64_t columns, int threads, uint16_t* to) {
  const int parts = static_cast<int>((rows + kRowsOfBlock - 1) / kRowsOfBlock);
  const bool in_one_go = inner <= kInnerBlock;
  const std::unique_ptr<float[]> room(in_one_go ? nullptr : new float[parts * kRowsOfBlock * columns]);
  for_each_part(parts, threads, [&](int part) {
    const int64_t first = part * kRowsOfBlock, count = std::min(kRowsOfBlock, rows - first);
    float* sums = in_one_go ? nullptr : room.get() + first * columns;
    for (int64_t word = 0; word < inner; word += kInnerBlock) {
      const int64_t block = std::min(kInnerBlock, inner - word);
      const TileSums out{word == 0 ? start : nullptr, sums, columns,
                         word + block == inner ? to + first * columns : nullptr, columns};
      for (int64_t panel = 0; panel < num_panels(columns); ++panel) {
        const int64_t column = panel * kPanelColumns;
        multiply_panel(left.at(first, word), right + (panel * inner + word) * kPanelColumns, count, block,
                       std::min<int64_t>(kPanelColumns, columns - column), out.at(0, column));
      }
    }
  });
}

// Lays out the slopes of some outputs, (words, kOutputsOfPart), and adds them up.
void lay_out_slopes(const Projection& all, const uint16_t* slope, int64_t output, Range rows, uint32_t* to,
                    float* totals) {
  const int64_t count = std::min(kOutputsOfPart, all.outputs - output);
  for (int64_t row = rows.begin; row < rows.end; row += 2, to += kOutputsOfPart) {
    const uint16_t* lower = slope + row * all.outputs + output;
    const uint16_t* upper = row + 1 < rows.end ? lower + all.outputs : nullptr;
    interleave(lower, upper, count, to);
    if (totals == nullptr) continue;
    for (int64_t i = 0; i < count; i += kLanes) {
      const Floats both = floats(lower + i) + (upper == nullptr ? Floats{} : floats(upper + i));
      store(totals + i, floats(totals + i) + both);
    }
  }
}

// A block of the weight's gradient: the rows of some outputs, the columns of some panels of inputs.
void add_up_block(const Projection& all, const uint16_t* slope, const uint32_t* inputs, const float* zeros,
                  int64_t output, Range panels, float* of_weight, float* of_bias) {
  const int64_t count = std::min(kOutputsOfPart, all.outputs - output), inner = (all.rows + 1) / 2;
  uint32_t slopes[kWordsOfBlock * kOutputsOfPart];
  if (of_bias != nullptr) std::fill(of_bias + output, of_bias + output + count, 0.0f);
  for (int64_t word = 0; word < inner; word += kWordsOfBlock) {
    const int64_t block = std::min(kWordsOfBlock, inner - word);
    const Range rows{2 * word, std::min(2 * (word + block), all.rows)};
    lay_out_slopes(all, slope, output, rows, slopes, of_bias == nullptr ? nullptr : of_bias + output);
    const TileSums out{word == 0 ? zeros : nullptr, of_weight + output * all.inputs, all.inputs, nullptr, 0};
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const int64_t column = panel * kPanelColumns;
      multiply_panel({slopes, 1, kOutputsOfPart}, inputs + (panel * inner + word) * kPanelColumns, count, block,
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
  multiply_words({from, inner, 1}, weight.get(), start, all.rows, inner, all.outputs, all.threads, to);
}

void project_gradient(const Projection& all, const uint16_t* slope, uint16_t* of_inputs) {
  const int64_t inner = all.outputs / 2, panels = num_panels(all.inputs);
  const Panels weight = panels_for(panels * inner * kPanelColumns);
  for_each_part(static_cast<int>(panels), all.threads, [&](int panel) {
    lay_out_panel(all.weight, all.outputs, all.inputs, panel * kPanelColumns,
                  weight.get() + panel * inner * kPanelColumns);
  });
  const std::vector<float> zeros(all.inputs);
  multiply_words({slope, inner, 1}, weight.get(), zeros.data(), all.rows, inner, all.inputs, all.threads, of_inputs);
}

void project_weight_gradient(const Projection& all, const uint16_t* slope, const uint16_t* from, float* of_weight,
                             float* of_bias) {
  if (all.rows == 0) {
    std::fill_n(of_weight, all.outputs * all.inputs, 0.0f);
    if (of_bias != nullptr) std::fill_n(of_bias, all.outputs, 0.0f);
    return;
  }
  const int64_t inner = (all.rows + 1) / 2, panels = num_panels(all.inputs);
  const Panels inputs = panels_for(panels * inner * kPanelColumns);
  for_each_part(static_cast<int>(panels), all.threads, [&](int panel) {
    lay_out_panel(from, all.rows, all.inputs, panel * kPanelColumns, inputs.get() + panel * inner * kPanelColumns);
  });
  const std::vector<float> zeros(all.inputs);
  // A few large parts would leave threads without work at the end; slopes are laid out again for each group.
  const int blocks = static_cast<int>((all.outputs + kOutputsOfPart - 1) / kOutputsOfPart);
  const int groups = blocks >= kManyBlocks * all.threads ? 1 : std::min(all.threads, static_cast<int>(panels));
  for_each_part(blocks * groups, all.threads, [&](int part) {
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

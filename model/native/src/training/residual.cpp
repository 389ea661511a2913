#include "training/residual.h"

#include <cmath>
#include <vector>

#include "kernels/number_types.h"
#include "training/parallel.h"

namespace dragoman {

namespace {

constexpr int kParts = 16;

template <typename From, typename To>
void add_part(const DroppedSum& all, Range vectors) {
  const From* update = static_cast<const From*>(all.update);
  To* sum = static_cast<To*>(all.sum);
  for (int64_t i = vectors.begin * kLanes; i < vectors.end * kLanes; i += kLanes) {
    Floats x = floats(update + i);
    if (all.dropout.threshold != 0) x *= all.dropout.factors(static_cast<uint32_t>(i));
    put(sum + i, all.stream == nullptr ? x : floats(all.stream + i) + x);
  }
}

template <typename To>
void norm_row(const NormedRows& all, int64_t row) {
  const int64_t width = all.width;
  const float* from = all.rows_in + row * width;
  To* to = static_cast<To*>(all.normed) + row * width;
  Floats totals = {}, squares = {};
  for (int64_t i = 0; i < width; i += kLanes) totals += floats(from + i);
  const float mean = sum(totals) / width;
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats distance = floats(from + i) - mean;
    squares = fused(distance, distance, squares);
  }
  const float factor = 1.0f / std::sqrt(sum(squares) / width + all.epsilon);
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats shift = all.shift == nullptr ? Floats{} : floats(all.shift + i);
    put(to + i, fused((floats(from + i) - mean) * factor, floats(all.gain + i), shift));
  }
  all.means[row] = mean;
  all.factors[row] = factor;
}

// dx = factor · (γg − mean(γg) − x̂ · mean(γg · x̂)), with x̂ the row without mean and deviation.
template <typename Number>
void add_row_gradient(const NormedRows& all, const NormGradients& out, int64_t row, float* of_gain, float* of_shift) {
  const int64_t width = all.width, start = row * width;
  const float* from = all.rows_in + start;
  const Number* slope = static_cast<const Number*>(all.normed) + start;
  const float mean = all.means[row], factor = all.factors[row];
  Floats sums = {}, products = {};
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats g = floats(slope + i), x = (floats(from + i) - mean) * factor;
    const Floats scaled = g * floats(all.gain + i);
    store(of_gain + i, fused(g, x, floats(of_gain + i)));
    store(of_shift + i, floats(of_shift + i) + g);
    sums += scaled;
    products = fused(scaled, x, products);
  }
  const float average = sum(sums) / width, correlation = sum(products) / width;
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats x = (floats(from + i) - mean) * factor;
    const Floats scaled = floats(slope + i) * floats(all.gain + i);
    Floats result = (scaled - average - x * correlation) * factor;
    if (out.upstream != nullptr) result += floats(out.upstream + start + i);
    store(out.of_rows + start + i, result);
  }
}

}  // namespace

void add_dropped(const DroppedSum& all) {
  with_number_type(all.update_is_bfloat16, [&](auto* from) {
    with_number_type(all.sum_is_bfloat16, [&](auto* to) {
      using From = std::remove_pointer_t<decltype(from)>;
      using To = std::remove_pointer_t<decltype(to)>;
      for_each_part(kParts, all.threads,
                    [&](int part) { add_part<From, To>(all, share_of(all.size / kLanes, part, kParts)); });
    });
  });
}

void norm_rows(const NormedRows& all) {
  with_number_type(all.normed_is_bfloat16, [&](auto* type) {
    using Number = std::remove_pointer_t<decltype(type)>;
    for_each_part(kParts, all.threads, [&](int part) {
      const Range rows = share_of(all.rows, part, kParts);
      for (int64_t row = rows.begin; row < rows.end; ++row) norm_row<Number>(all, row);
    });
  });
}

void norm_rows_gradient(const NormedRows& all, const NormGradients& out) {
  const int64_t width = all.width;
  std::vector<float> of_parts(2 * kParts * width);
  with_number_type(all.normed_is_bfloat16, [&](auto* type) {
    using Number = std::remove_pointer_t<decltype(type)>;
    for_each_part(kParts, all.threads, [&](int part) {
      const Range rows = share_of(all.rows, part, kParts);
      float* sums = of_parts.data() + 2 * part * width;
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        add_row_gradient<Number>(all, out, row, sums, sums + width);
      }
    });
  });
  std::fill(out.of_gain, out.of_gain + width, 0.0f);
  if (out.of_shift != nullptr) std::fill(out.of_shift, out.of_shift + width, 0.0f);
  for (int part = 0; part < kParts; ++part) {
    const float* sums = of_parts.data() + 2 * part * width;
    for (int64_t i = 0; i < width; ++i) {
      out.of_gain[i] += sums[i];
      if (out.of_shift != nullptr) out.of_shift[i] += sums[width + i];
    }
  }
}

}  // namespace dragoman

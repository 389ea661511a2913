#include <cmath>
#include <vector>

#include "kernels/layer_norm.h"
#include "kernels/simd.h"
#include "training/operators.h"
#include "training/parallel.h"

namespace dragoman {
namespace {

constexpr int kParts = 16;

template <typename From, typename To>
void add_part(const DropoutAdd& all, Range vectors) {
  const From* update = static_cast<const From*>(all.update);
  To* sum = static_cast<To*>(all.sum);
  for (int64_t i = vectors.begin * kLanes; i < vectors.end * kLanes; i += kLanes) {
    Floats x = floats(update + i);
    if (all.dropout.threshold != 0) x *= all.dropout.factors(i);
    store_floats(sum + i, all.stream == nullptr ? x : floats(all.stream + i) + x);
  }
}

template <typename To>
void norm_row(const NormedRows& all, int64_t row) {
  const int64_t width = all.width;
  const float* from = all.rows_in + row * width;
  To* to = static_cast<To*>(all.normed) + row * width;
  const auto [mean, squares] = moments(from, width);
  const float factor = 1.0f / std::sqrt(squares / static_cast<float>(width) + all.epsilon);
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats shift = all.shift == nullptr ? Floats{} : floats(all.shift + i);
    store_floats(to + i, multiply_add((floats(from + i) - mean) * factor, floats(all.gain + i), shift));
  }
  all.means[row] = mean;
  all.factors[row] = factor;
}

// dx = factor · (γg − mean(γg) − x̂ · mean(γg · x̂)), where x̂ is the normalised row and γ the gain.
template <typename Number>
void add_row_gradient(const NormedRows& all, const NormGradients& out, int64_t row, float* gain, float* shift) {
  const int64_t width = all.width, start = row * width;
  const float* from = all.rows_in + start;
  const Number* gradient = static_cast<const Number*>(all.normed) + start;
  const float mean = all.means[row], factor = all.factors[row];
  Floats sums = {}, products = {};
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats g = floats(gradient + i), x = (floats(from + i) - mean) * factor;
    const Floats scaled = g * floats(all.gain + i);
    store(gain + i, multiply_add(g, x, floats(gain + i)));
    store(shift + i, floats(shift + i) + g);
    sums += scaled;
    products = multiply_add(scaled, x, products);
  }
  const float average = reduce_sum(sums) / static_cast<float>(width),
              correlation = reduce_sum(products) / static_cast<float>(width);
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats x = (floats(from + i) - mean) * factor;
    const Floats scaled = floats(gradient + i) * floats(all.gain + i);
    Floats result = (scaled - average - x * correlation) * factor;
    if (out.upstream != nullptr) result += floats(out.upstream + start + i);
    store(out.rows + start + i, result);
  }
}

}  // namespace

void dropout_add(const DropoutAdd& all) {
  with_number_type(all.update_is_bfloat16, [&](auto* from) {
    with_number_type(all.sum_is_bfloat16, [&](auto* to) {
      using From = std::remove_pointer_t<decltype(from)>;
      using To = std::remove_pointer_t<decltype(to)>;
      for_each_part(kParts, all.threads,
                    [&](int part) { add_part<From, To>(all, range_of_part(all.size / kLanes, part, kParts)); });
    });
  });
}

void norm_rows(const NormedRows& all) {
  with_number_type(all.normed_is_bfloat16, [&](auto* type) {
    using Number = std::remove_pointer_t<decltype(type)>;
    for_each_item(all.rows, kParts, all.threads, [&](int64_t row, int) { norm_row<Number>(all, row); });
  });
}

void norm_rows_gradient(const NormedRows& all, const NormGradients& out) {
  const int64_t width = all.width;
  std::vector<float> part_sums(2 * kParts * width);
  with_number_type(all.normed_is_bfloat16, [&](auto* type) {
    using Number = std::remove_pointer_t<decltype(type)>;
    for_each_item(all.rows, kParts, all.threads, [&](int64_t row, int part) {
      float* sums = part_sums.data() + 2 * part * width;
      add_row_gradient<Number>(all, out, row, sums, sums + width);
    });
  });
  std::fill(out.gain, out.gain + width, 0.0f);
  if (out.shift != nullptr) std::fill(out.shift, out.shift + width, 0.0f);
  for (int part = 0; part < kParts; ++part) {
    const float* sums = part_sums.data() + 2 * part * width;
    for (int64_t i = 0; i < width; ++i) {
      out.gain[i] += sums[i];
      if (out.shift != nullptr) out.shift[i] += sums[width + i];
    }
  }
}

}  // namespace dragoman

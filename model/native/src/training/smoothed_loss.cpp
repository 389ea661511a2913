#include <cmath>
#include <vector>

#include "kernels/simd.h"
#include "training/operators.h"
#include "training/parallel.h"

namespace dragoman {
namespace {

constexpr int kRowsPerPart = 32;

struct RowSums {
  double logits;
  float normaliser;
};

// The row stays in the L1 cache between the two passes.
template <typename Number>
RowSums sums_of_row(const Number* row, int64_t width) {
  Floats largest = broadcast(-INFINITY), totals = {};
  for (int64_t i = 0; i < width; i += kLanes) {
    largest = maximum(load_partial(row + i, width - i, -INFINITY), largest);
    totals += load_partial(row + i, width - i, 0.0f);
  }
  const float highest = reduce_max(largest);
  Floats powers = {};
  for (int64_t i = 0; i < width; i += kLanes) {
    powers += exp_of_negative(load_partial(row + i, width - i, -INFINITY) - highest);
  }
  return {reduce_sum(totals), highest + std::log(reduce_sum(powers))};
}

template <typename Number>
void add_loss(const LossRows& all, int64_t row, double* sums) {
  const Number* logits = static_cast<const Number*>(all.logits) + row * all.row_stride;
  const RowSums of_row = sums_of_row(logits, all.vocabulary);
  const double normaliser = all.normalisers[row] = of_row.normaliser;
  const double label = to_float(logits + all.labels[row]), padding = to_float(logits + all.pad_id);
  const double others = of_row.logits - label - padding - static_cast<double>(all.vocabulary - 2) * normaliser;
  sums[0] -= (1 - all.smoothing) * (label - normaliser) + all.other_probability * others;
  sums[1] -= label - normaliser;
}

template <typename Number>
void write_gradient(const LossRows& all, int64_t row, float scale, Number* gradient) {
  const int64_t width = all.vocabulary, label = all.labels[row];
  if (label == all.pad_id) {
    std::fill(gradient, gradient + width, Number{0});
    return;
  }
  const Number* logits = static_cast<const Number*>(all.logits) + row * all.row_stride;
  const float normaliser = all.normalisers[row], other = static_cast<float>(all.other_probability);
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats probabilities = exp_of_negative(load_partial(logits + i, width - i, 0.0f) - normaliser);
    store_partial(gradient + i, width - i, (probabilities - other) * scale);
  }
  const auto correct = [&](int64_t id, float target) {
    store_partial(gradient + id, 1, broadcast(scale * (std::exp(to_float(logits + id) - normaliser) - target)));
  };
  correct(all.pad_id, 0.0f);
  correct(label, static_cast<float>(1 - all.smoothing));
}

template <typename Body>
void for_each_row(const LossRows& all, const Body& body) {
  const int parts = static_cast<int>((all.rows + kRowsPerPart - 1) / kRowsPerPart);
  for_each_part(parts, all.threads, [&](int part) {
    const int64_t begin = int64_t{part} * kRowsPerPart;
    for (int64_t row = begin; row < std::min(begin + kRowsPerPart, all.rows); ++row) body(row, part);
  });
}

}  // namespace

void smoothed_loss(const LossRows& all, double* sums) {
  std::vector<double> part_sums(2 * (all.rows / kRowsPerPart + 1));
  with_number_type(all.is_bfloat16, [&](auto* type) {
    using Number = std::remove_pointer_t<decltype(type)>;
    for_each_row(all, [&](int64_t row, int part) {
      if (all.labels[row] != all.pad_id) add_loss<Number>(all, row, part_sums.data() + 2 * part);
    });
  });
  sums[0] = sums[1] = 0;
  for (size_t i = 0; i < part_sums.size(); ++i) sums[i % 2] += part_sums[i];
}

void smoothed_loss_gradient(const LossRows& all, float scale, void* gradient) {
  with_number_type(all.is_bfloat16, [&](auto* type) {
    using Number = std::remove_pointer_t<decltype(type)>;
    for_each_row(all, [&](int64_t row, int) {
      write_gradient(all, row, scale, static_cast<Number*>(gradient) + row * all.vocabulary);
    });
  });
}

}  // namespace dragoman

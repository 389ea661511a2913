#include "training/smoothed_loss.h"

#include <cmath>
#include <vector>

namespace dragoman {

namespace {

constexpr int kRowsOfPart = 32;

struct RowSums {
  double logits;
  float normaliser;
};

// The row stays in the first cache between the two readings.
template <typename Number>
RowSums sums_of_row(const Number* row, int64_t width) {
  Floats most = spread(-INFINITY), totals = {};
  for (int64_t i = 0; i < width; i += kLanes) {
    most = larger(some(row + i, width - i, -INFINITY), most);
    totals += some(row + i, width - i, 0.0f);
  }
  const float highest = maximum(most);
  Floats powers = {};
  for (int64_t i = 0; i < width; i += kLanes) {
    powers += exponential_of_negative(some(row + i, width - i, -INFINITY) - highest);
  }
  return {sum(totals), highest + std::log(sum(powers))};
}

template <typename Number>
void add_loss(const LossRows& all, int64_t row, double* sums) {
  const Number* logits = static_cast<const Number*>(all.logits) + row * all.row_stride;
  const RowSums of_row = sums_of_row(logits, all.vocabulary);
  const double normaliser = all.normalisers[row] = of_row.normaliser;
  const double wanted = number(logits + all.labels[row]), padding = number(logits + all.pad_id);
  const double others = of_row.logits - wanted - padding - (all.vocabulary - 2) * normaliser;
  sums[0] -= (1 - all.share) * (wanted - normaliser) + all.other * others;
  sums[1] -= wanted - normaliser;
}

template <typename Number>
void write_gradient(const LossRows& all, int64_t row, float scale, Number* gradient) {
  const int64_t width = all.vocabulary, label = all.labels[row];
  if (label == all.pad_id) {
    std::fill(gradient, gradient + width, Number{0});
    return;
  }
  const Number* logits = static_cast<const Number*>(all.logits) + row * all.row_stride;
  const float normaliser = all.normalisers[row], other = static_cast<float>(all.other);
  for (int64_t i = 0; i < width; i += kLanes) {
    const Floats shares = exponential_of_negative(some(logits + i, width - i, 0.0f) - normaliser);
    put_some(gradient + i, width - i, (shares - other) * scale);
  }
  const auto correct = [&](int64_t id, float wanted) {
    put_some(gradient + id, 1, spread(scale * (std::exp(number(logits + id) - normaliser) - wanted)));
  };
  correct(all.pad_id, 0.0f);
  correct(label, static_cast<float>(1 - all.share));
}

template <typename Body>
void for_each_row(const LossRows& all, const Body& body) {
  const int parts = static_cast<int>((all.rows + kRowsOfPart - 1) / kRowsOfPart);
  for_each_part(parts, all.threads, [&](int part) {
    const int64_t begin = int64_t{part} * kRowsOfPart;
    for (int64_t row = begin; row < std::min(begin + kRowsOfPart, all.rows); ++row) body(row, part);
  });
}

}  // namespace

void smoothed_loss(const LossRows& all, double* sums) {
  std::vector<double> of_parts(2 * (all.rows / kRowsOfPart + 1));
  with_number_type(all.is_bfloat16, [&](auto* type) {
    using Number = std::remove_pointer_t<decltype(type)>;
    for_each_row(all, [&](int64_t row, int part) {
      if (all.labels[row] != all.pad_id) add_loss<Number>(all, row, of_parts.data() + 2 * part);
    });
  });
  sums[0] = sums[1] = 0;
  for (size_t i = 0; i < of_parts.size(); ++i) sums[i % 2] += of_parts[i];
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

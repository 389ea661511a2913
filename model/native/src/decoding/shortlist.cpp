#include "decoding/shortlist.h"

#include <algorithm>

namespace dragoman {

std::vector<int32_t> Shortlist::indices(const int32_t* tokens, std::size_t count) const {
  if (is_whole()) return {tokens, tokens + count};
  std::vector<int32_t> indices;
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = std::lower_bound(tokens_.begin(), tokens_.end(), tokens[i]);
    if (found != tokens_.end() && *found == tokens[i]) indices.push_back(static_cast<int32_t>(found - tokens_.begin()));
  }
  return indices;
}

Vocabulary Shortlist::restrict(const Vocabulary& whole) const {
  if (is_whole()) return whole;
  return {static_cast<int32_t>(tokens_.size()), whole.start_id, indices(&whole.eos_id, 1).at(0),
          indices(whole.never_produced.data(), whole.never_produced.size())};
}

ShortlistProjection::ShortlistProjection(const Matrix& whole)
    : whole_(whole),
      index_map_(whole.outputs(), -1),
      outputs_(3 * whole.outputs() / 4),
      use_counts_(3 * whole.outputs() / 4) {}

bool ShortlistProjection::acquire(const std::vector<int32_t>& outputs) {
  const auto is_used = [this](int32_t output) {
    return index_map_[output] >= 0 && use_counts_[index_map_[output]] > 0;
  };
  const auto num_new = outputs.size() - std::count_if(outputs.begin(), outputs.end(), is_used);
  if (num_used_ + num_new > use_counts_.size()) return false;
  if (matrix_.inputs() == 0) matrix_ = whole_.without_outputs(static_cast<int64_t>(use_counts_.size()));
  // First counts the outputs that are present, so that the missing ones do not replace them.
  std::vector<int32_t> missing;
  missing.reserve(num_new);
  for (const int32_t output : outputs) {
    if (index_map_[output] < 0) {
      missing.push_back(output);
    } else {
      ++use_counts_[index_map_[output]];
    }
  }
  int32_t row = 0;
  for (const int32_t output : missing) {
    row = next_unused(row);
    place(output, row);
    use_counts_[row] = 1;
  }
  num_used_ += static_cast<int32_t>(num_new);
  if (2 * num_used_ < num_rows()) compact();
  return true;
}

void ShortlistProjection::release(const std::vector<int32_t>& outputs) {
  for (const int32_t output : outputs) {
    if (--use_counts_[index_map_[output]] == 0) --num_used_;
  }
}

// The first unused row from `row` on, which may be one past the last.
int32_t ShortlistProjection::next_unused(int32_t row) const {
  const auto end = use_counts_.begin() + num_rows();
  return static_cast<int32_t>(std::find(use_counts_.begin() + row, end, 0) - use_counts_.begin());
}

void ShortlistProjection::place(int32_t output, int32_t row) {
  if (row < num_rows()) index_map_[outputs_[row]] = -1;
  matrix_.copy_output(whole_, output, row);
  index_map_[output] = row;
  outputs_[row] = output;
}

// Removes unused rows, which small batches after a large one would go on reading.
void ShortlistProjection::compact() {
  int32_t gap = 0;
  for (int32_t row = num_used_; row < num_rows(); ++row) {
    if (use_counts_[row] == 0) {
      index_map_[outputs_[row]] = -1;
      continue;
    }
    gap = next_unused(gap);
    std::swap(use_counts_[gap], use_counts_[row]);
    place(outputs_[row], gap);
  }
  matrix_.truncate_outputs(num_used_);
}

}  // namespace dragoman

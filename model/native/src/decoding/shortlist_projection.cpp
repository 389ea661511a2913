#include "decoding/shortlist_projection.h"

#include <algorithm>

namespace dragoman {
namespace {

int64_t most(const Matrix& whole) { return 3 * whole.outputs() / 4; }

}  // namespace

Selection::Selection(const Matrix& whole)
    : whole_(whole), places_(whole.outputs(), -1), outputs_(most(whole)), users_(most(whole)) {}

bool Selection::add(const std::vector<int32_t>& outputs) {
  const auto is_used = [this](int32_t output) { return places_[output] >= 0 && users_[places_[output]] > 0; };
  const auto num_new = outputs.size() - std::count_if(outputs.begin(), outputs.end(), is_used);
  if (num_used_ + num_new > users_.size()) return false;
  if (matrix_.bytes() == 0) matrix_ = whole_.room_for(static_cast<int64_t>(users_.size()));
  // Those that are there first, so that none of them makes room for another.
  std::vector<int32_t> missing;
  missing.reserve(num_new);
  for (const int32_t output : outputs) {
    if (places_[output] < 0) {
      missing.push_back(output);
    } else {
      ++users_[places_[output]];
    }
  }
  int32_t place = 0;
  for (const int32_t output : missing) {
    place = next_free(place);
    put(output, place);
    users_[place] = 1;
  }
  num_used_ += static_cast<int32_t>(num_new);
  if (2 * num_used_ < num_places()) close_gaps();
  return true;
}

void Selection::remove(const std::vector<int32_t>& outputs) {
  for (const int32_t output : outputs) {
    if (--users_[places_[output]] == 0) --num_used_;
  }
}

int32_t Selection::next_free(int32_t place) const {
  const auto end = users_.begin() + num_places();
  return static_cast<int32_t>(std::find(users_.begin() + place, end, 0) - users_.begin());
}

void Selection::put(int32_t output, int32_t place) {
  if (place < num_places()) places_[outputs_[place]] = -1;
  matrix_.copy_output(whole_, output, place);
  places_[output] = place;
  outputs_[place] = output;
}

// After a large batch, a small one would go on reading what nobody needs.
void Selection::close_gaps() {
  int32_t gap = 0;
  for (int32_t place = num_used_; place < num_places(); ++place) {
    if (users_[place] == 0) {
      places_[outputs_[place]] = -1;
      continue;
    }
    gap = next_free(gap);
    std::swap(users_[gap], users_[place]);
    put(outputs_[place], gap);
  }
  matrix_.forget_outputs(num_used_);
}

}  // namespace dragoman

#include "decoding/shortlist.h"

#include <algorithm>

namespace dragoman {

std::vector<int32_t> Shortlist::places(const int32_t* tokens, std::size_t count) const {
  if (is_whole()) return {tokens, tokens + count};
  std::vector<int32_t> places;
  for (std::size_t i = 0; i < count; ++i) {
    const auto found = std::lower_bound(tokens_.begin(), tokens_.end(), tokens[i]);
    if (found != tokens_.end() && *found == tokens[i]) places.push_back(static_cast<int32_t>(found - tokens_.begin()));
  }
  return places;
}

Vocabulary Shortlist::within(const Vocabulary& whole) const {
  if (is_whole()) return whole;
  return {static_cast<int32_t>(tokens_.size()), whole.start_id, places(&whole.eos_id, 1).at(0),
          places(whole.never_produced.data(), whole.never_produced.size())};
}

}  // namespace dragoman

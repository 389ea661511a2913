// The tokens that one sentence may produce: a vocabulary of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "decoding/constraints.h"
#include "decoding/request.h"

namespace dragoman {

// Within a search, a token is its place in this list, so that a search knows nothing of other tokens. Without
// candidates, place and token are the same.
class Shortlist {
 public:
  explicit Shortlist(const Request& request)
      : tokens_(request.candidate_ids, request.candidate_ids + request.num_candidates) {}

  bool is_whole() const { return tokens_.empty(); }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  int32_t token(int32_t place) const { return is_whole() ? place : tokens_[place]; }

  // The places of those tokens that it has.
  std::vector<int32_t> places(const int32_t* tokens, std::size_t count) const;
  // In places; the decoder's first input, which no search sees, stays a token.
  Vocabulary within(const Vocabulary& whole) const;

 private:
  std::vector<int32_t> tokens_;  // ascending; none means all
};

}  // namespace dragoman

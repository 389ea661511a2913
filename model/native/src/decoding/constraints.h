// What one sentence may not produce; the rules of model/decoding/pytorch/search/constraints.py for a single hypothesis.
#pragma once

#include <cstdint>
#include <vector>

#include "decoding/request.h"

namespace dragoman {

// What every sentence of a session has in common.
struct Vocabulary {
  int32_t size;
  int32_t start_id;  // the decoder's first input
  int32_t eos_id;
  std::vector<int32_t> never_produced;  // never EOS
};

class Constraints {
 public:
  Constraints(const Request& request, const Vocabulary& vocabulary);

  // The token that must come after this many, or -1 if the search may choose. A given token keeps its
  // log-probability and may be one that the other rules forbid.
  int32_t given(std::size_t position) const { return position < prefix_.size() ? prefix_[position] : -1; }
  std::size_t num_given() const { return prefix_.size(); }

  // Multiplies the log-probability of every token that the hypothesis holds; 1 changes nothing.
  float repetition_penalty() const { return repetition_penalty_; }

  // Adds the tokens that may not follow `history`; some may be named twice.
  void forbid(const std::vector<int32_t>& history, std::vector<int32_t>& forbidden) const;

 private:
  std::vector<int32_t> prefix_;
  std::vector<int32_t> always_forbidden_;
  int32_t eos_id_;
  std::size_t shortest_;
  std::size_t ngram_size_;  // none may appear twice; 0 is no limit
  float repetition_penalty_;
};

}  // namespace dragoman

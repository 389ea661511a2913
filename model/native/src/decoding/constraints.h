// The tokens that a hypothesis may not produce, by the rules of model/decoding/pytorch/search/constraints.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decoding/request.h"

namespace dragoman {

class Constraints {
 public:
  Constraints(const Request& request, const Vocabulary& vocabulary)
      : prefix_(request.prefix_ids, request.prefix_ids + request.prefix_length),
        num_start_(request.num_start),
        always_forbidden_(vocabulary.never_produced),
        eos_id_(vocabulary.eos_id),
        min_length_(request.options.min_length),
        ngram_size_(request.options.no_repeat_ngram_size),
        repetition_penalty_(request.options.repetition_penalty) {
    for (int32_t i = 0; i < request.num_suppressed; ++i) {
      // Suppressing an id beyond the vocabulary has no effect.
      if (request.suppress_ids[i] < vocabulary.size) always_forbidden_.push_back(request.suppress_ids[i]);
    }
  }

  // The token of the requested prefix at this position, or -1 after the prefix. A token of the prefix keeps its
  // log-probability, which is 0 for a start token, and may be one that the other rules forbid.
  int32_t prefix_token(std::size_t position) const { return position < prefix_.size() ? prefix_[position] : -1; }
  std::size_t prefix_length() const { return prefix_.size(); }
  bool is_start(std::size_t position) const { return position < num_start_; }

  // A factor for the log-probability of every token that the hypothesis already contains; 1 disables it.
  float repetition_penalty() const { return repetition_penalty_; }

  // Appends the tokens that may not follow `history`, possibly with repetitions.
  void forbid(const std::vector<int32_t>& history, std::vector<int32_t>& forbidden) const {
    forbidden.insert(forbidden.end(), always_forbidden_.begin(), always_forbidden_.end());
    if (history.size() + 1 < min_length_) forbidden.push_back(eos_id_);
    if (ngram_size_ == 0 || history.size() < ngram_size_) return;
    // If an earlier n-gram begins with the last n - 1 tokens, its last token would complete a repetition.
    const auto ending = history.end() - (ngram_size_ - 1);
    for (auto last = history.begin() + (ngram_size_ - 1); last != history.end(); ++last) {
      if (std::equal(ending, history.end(), last - (ngram_size_ - 1))) forbidden.push_back(*last);
    }
  }

 private:
  std::vector<int32_t> prefix_;
  std::size_t num_start_;
  std::vector<int32_t> always_forbidden_;
  int32_t eos_id_;
  std::size_t min_length_;
  std::size_t ngram_size_;  // no n-gram of this size may occur twice; 0 disables the rule
  float repetition_penalty_;
};

}  // namespace dragoman

#include "decoding/constraints.h"

#include <algorithm>

namespace dragoman {

Constraints::Constraints(const Request& request, const Vocabulary& vocabulary)
    : prefix_(request.prefix_ids, request.prefix_ids + request.prefix_length),
      always_forbidden_(vocabulary.never_produced),
      eos_id_(vocabulary.eos_id),
      shortest_(request.options.shortest),
      ngram_size_(request.options.no_repeat_ngram_size),
      repetition_penalty_(request.options.repetition_penalty) {
  for (int32_t i = 0; i < request.num_suppressed; ++i) {
    // Options outlive vocabularies: an id that this one does not have is not produced anyway.
    if (request.suppress_ids[i] < vocabulary.size) always_forbidden_.push_back(request.suppress_ids[i]);
  }
}

void Constraints::forbid(const std::vector<int32_t>& history, std::vector<int32_t>& forbidden) const {
  forbidden.insert(forbidden.end(), always_forbidden_.begin(), always_forbidden_.end());
  if (history.size() + 1 < shortest_) forbidden.push_back(eos_id_);
  if (ngram_size_ == 0 || history.size() < ngram_size_) return;
  // An n-gram of the past that begins as the hypothesis now ends may not end as it did.
  const auto ending = history.end() - (ngram_size_ - 1);
  for (auto last = history.begin() + (ngram_size_ - 1); last != history.end(); ++last) {
    if (std::equal(ending, history.end(), last - (ngram_size_ - 1))) forbidden.push_back(*last);
  }
}

}  // namespace dragoman

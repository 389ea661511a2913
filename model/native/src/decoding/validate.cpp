#include "decoding/validate.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace dragoman {

namespace {

constexpr int32_t kMostLanes = 1 << 20;

// Some ids, as a request has them.
struct Ids {
  const int32_t* first;
  int32_t count;

  const int32_t* begin() const { return first; }
  const int32_t* end() const { return first + count; }
};

void require(bool holds, const char* problem) {
  if (!holds) throw std::invalid_argument(problem);
}

void require_between(const std::string& what, int64_t number, int64_t least, int64_t most) {
  if (least <= number && number <= most) return;
  throw std::invalid_argument(what + " must be from " + std::to_string(least) + " to " + std::to_string(most) +
                              ", but is " + std::to_string(number) + " instead");
}

void require_ids(const std::string& what, Ids ids, int32_t vocabulary) {
  for (const int32_t id : ids) require_between(what, id, 0, vocabulary - 1);
}

void require_candidates(Ids candidates, Ids prefix) {
  // No two are the same.
  const bool ascend =
      std::adjacent_find(candidates.begin(), candidates.end(), std::greater_equal<int32_t>()) == candidates.end();
  require(ascend, "candidates must ascend");
  for (const int32_t id : prefix) {
    require(std::binary_search(candidates.begin(), candidates.end(), id), "candidates must include the prefix");
  }
}

}  // namespace

void require_sound(const Vocabulary& vocabulary) {
  require_between("the start id", vocabulary.start_id, 0, vocabulary.size - 1);
  require_between("the EOS id", vocabulary.eos_id, 0, vocabulary.size - 1);
  const auto& never = vocabulary.never_produced;
  require_ids("an id that is never produced", {never.data(), static_cast<int32_t>(never.size())}, vocabulary.size);
}

void require_sound(const Request& request, const NetworkConfig& config) {
  const Ids source{request.source_ids, request.source_length}, prefix{request.prefix_ids, request.prefix_length};
  const Ids candidates{request.candidate_ids, request.num_candidates};
  require_between("the number of lanes", request.options.lanes, 1, kMostLanes);
  require_between("the number of results", request.options.num_hypotheses, 1, request.options.lanes);
  require_between("the shortest result", request.options.shortest, 0, INT32_MAX);
  require_between("the size of n-grams", request.options.no_repeat_ngram_size, 0, INT32_MAX);
  require_between("the source's length", source.count, 1, config.max_positions);
  require_between("the longest result", request.options.longest, 1, config.max_positions);
  require_between("the prefix's length", prefix.count, 0, request.options.longest - 1);
  require_between("the number of candidates", candidates.count, 0, config.target_vocab_size);
  require_ids("a source id", source, config.source_vocab_size);
  require_ids("a prefix id", prefix, config.target_vocab_size);
  require_ids("a candidate", candidates, config.target_vocab_size);
  // An id beyond the vocabulary is not produced anyway.
  require_between("the number of suppressed ids", request.num_suppressed, 0, INT32_MAX);
  require_ids("a suppressed id", {request.suppress_ids, request.num_suppressed}, INT32_MAX);
  if (candidates.count > 0) require_candidates(candidates, prefix);
}

}  // namespace dragoman

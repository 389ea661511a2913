#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "decoding/request.h"

namespace dragoman {
namespace {

constexpr int32_t kMaxRows = 1 << 20;

struct Ids {
  const int32_t* first;
  int32_t count;

  const int32_t* begin() const { return first; }
  const int32_t* end() const { return first + count; }
};

void require_between(const std::string& what, int64_t number, int64_t least, int64_t most) {
  if (least <= number && number <= most) return;
  throw std::invalid_argument(what + " must be from " + std::to_string(least) + " to " + std::to_string(most) +
                              ", but is " + std::to_string(number) + " instead");
}

void require_ids(const std::string& what, Ids ids, int32_t vocabulary) {
  for (const int32_t id : ids) require_between(what, id, 0, vocabulary - 1);
}

void require_phrases(const Request& request) {
  int64_t num_ids = 0;
  int32_t phrase = 0;
  for (int32_t i = 0; i < request.num_spellings; ++i) {
    const Spelling& spelling = request.spellings[i];
    require_between("the length of a spelling", spelling.length, 1, request.num_phrase_ids);
    require_between("the phrase of a spelling", spelling.phrase, i == 0 ? 0 : phrase, i == 0 ? 0 : phrase + 1);
    num_ids += spelling.length;
    phrase = spelling.phrase;
  }
  require_between("the number of phrase ids", request.num_phrase_ids, num_ids, num_ids);
  if (num_ids > 0 && request.options.strategy != Strategy::beam) {
    throw std::invalid_argument("phrases need beam search");
  }
}

void require_shortlist(Ids shortlist, Ids needed, const std::string& what) {
  if (std::adjacent_find(shortlist.begin(), shortlist.end(), std::greater_equal<int32_t>()) != shortlist.end()) {
    throw std::invalid_argument("a shortlist must ascend");
  }
  if (!std::all_of(needed.begin(), needed.end(),
                   [=](int32_t id) { return std::binary_search(shortlist.begin(), shortlist.end(), id); })) {
    throw std::invalid_argument("a shortlist must include " + what);
  }
}

}  // namespace

void validate(const Vocabulary& vocabulary) {
  require_between("the start id", vocabulary.start_id, 0, vocabulary.size - 1);
  require_between("the EOS id", vocabulary.eos_id, 0, vocabulary.size - 1);
  const auto& never = vocabulary.never_produced;
  require_ids("an id that is never produced", {never.data(), static_cast<int32_t>(never.size())}, vocabulary.size);
}

void validate(const Request& request, const NetworkConfig& config) {
  const Ids source{request.source_ids, request.source_length}, prefix{request.prefix_ids, request.prefix_length};
  const Ids shortlist{request.shortlist_ids, request.num_shortlisted};
  const Ids phrases{request.phrase_ids, request.num_phrase_ids};
  require_between("the number of rows", request.options.max_rows, 1, kMaxRows);
  require_between("the number of results", request.options.num_hypotheses, 1, request.options.max_rows);
  require_between("the minimum length", request.options.min_length, 0, INT32_MAX);
  require_between("the size of n-grams", request.options.no_repeat_ngram_size, 0, INT32_MAX);
  require_between("the source's length", source.count, 1, config.max_positions);
  require_between("the maximum length", request.options.max_length, 1, config.max_positions);
  require_between("the prefix's length", prefix.count, 0, request.options.max_length - 1);
  require_between("the number of start tokens", request.num_start, 0, prefix.count);
  require_between("the length of the shortlist", shortlist.count, 0, config.target_vocab_size);
  require_ids("a source id", source, config.source_vocab_size);
  require_ids("a prefix id", prefix, config.target_vocab_size);
  require_ids("a shortlisted id", shortlist, config.target_vocab_size);
  require_phrases(request);
  require_ids("a phrase id", phrases, config.target_vocab_size);
  // A suppressed id may be beyond the vocabulary, which has no effect.
  require_between("the number of suppressed ids", request.num_suppressed, 0, INT32_MAX);
  require_ids("a suppressed id", {request.suppress_ids, request.num_suppressed}, INT32_MAX);
  if (shortlist.count == 0) return;
  require_shortlist(shortlist, prefix, "the prefix");
  require_shortlist(shortlist, phrases, "the phrases");
}

}  // namespace dragoman

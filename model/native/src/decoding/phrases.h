// The phrases that a translation must contain, by the rules of model/decoding/pytorch/search/phrases.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "decoding/request.h"

namespace dragoman {

// What a hypothesis has of the phrases; empty vectors if there are none.
struct PhraseProgress {
  std::vector<uint8_t> is_reached;  // for each token: whether the hypothesis ends with its spelling up to this token
  std::vector<int32_t> counts;      // for each phrase: its occurrences, none after it is met
  bool has_ended = false;           // whether the last token has completed a phrase
};

// A continuation of a live hypothesis by one token.
struct Candidate {
  float total;     // of the hypothesis with the token, see Hypothesis
  float log_prob;  // of the token, unconstrained
  int32_t parent;
  int32_t token;
};

class Phrases {
 public:
  Phrases(const Request& request, int32_t vocab_size) {
    if (request.num_spellings == 0) return;
    if (request.word_parts != nullptr) is_word_part_.assign(request.word_parts, request.word_parts + vocab_size);
    const int32_t* ids = request.phrase_ids;
    std::vector<std::vector<int32_t>> spellings;  // of each phrase, with their lengths
    for (int32_t i = 0; i < request.num_spellings; ++i) {
      const auto [length, phrase] = request.spellings[i];
      if (static_cast<std::size_t>(phrase) == lengths_.size()) {
        lengths_.push_back(length);
        spellings.emplace_back();
      }
      spellings.back().push_back(length);
      spellings.back().insert(spellings.back().end(), ids, ids + length);
      lengths_[phrase] = std::min(lengths_[phrase], length);
      for (int32_t place = 0; place < length; ++place) tokens_.push_back({*ids++, phrase, place, length});
    }
    std::map<std::vector<int32_t>, int32_t> known;
    for (const std::vector<int32_t>& each : spellings) ranks_.push_back(known[each]++);
  }

  bool is_empty() const { return tokens_.empty(); }

  PhraseProgress start() const {
    return {std::vector<uint8_t>(tokens_.size()), std::vector<int32_t>(lengths_.size()), false};
  }

  // Continues a hypothesis by a token.
  void advance(int32_t token, PhraseProgress& progress) const {
    progress.has_ended = false;
    int32_t ended = -1;
    for (std::size_t i = tokens_.size(); i-- > 0;) {
      progress.is_reached[i] = tokens_[i].id == token && may_follow(i, progress);
      if (!progress.is_reached[i] || tokens_[i].place + 1 < tokens_[i].length) continue;
      const int32_t phrase = tokens_[i].phrase;
      // Several spellings of a phrase may end with the same token.
      if (phrase == ended || is_met(phrase, progress)) continue;
      ended = phrase;
      ++progress.counts[phrase];
      progress.has_ended |= is_met(phrase, progress);
    }
  }

  // The fewest tokens that complete the phrases one after the other.
  int32_t num_missing(const PhraseProgress& progress) const {
    int32_t begun = 0;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (!progress.is_reached[i] || token.place + 1 == token.length || is_met(token.phrase, progress)) continue;
      begun = std::max(begun, lengths_[token.phrase] - token.length + token.place + 1);
    }
    return num_unmet(progress) - begun;
  }

  // The same if no missing phrase has begun, as after any token that `next_tokens` does not have.
  int32_t num_unmet(const PhraseProgress& progress) const {
    int32_t missing = 0;
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      missing += is_met(static_cast<int32_t>(i), progress) ? 0 : lengths_[i];
    }
    return missing;
  }

  // Whether a token continues the last word of a phrase that has just ended.
  bool spoils_word(int32_t token, const PhraseProgress& progress) const {
    return progress.has_ended && !is_word_part_.empty() && is_word_part_[token];
  }

  // The next tokens of all spellings of missing phrases, each once.
  std::vector<int32_t> next_tokens(const PhraseProgress& progress) const {
    std::vector<int32_t> next;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (is_met(tokens_[i].phrase, progress) || !may_follow(i, progress)) continue;
      if (std::find(next.begin(), next.end(), tokens_[i].id) == next.end()) next.push_back(tokens_[i].id);
    }
    return next;
  }

 private:
  struct Token {
    int32_t id;
    int32_t phrase;
    int32_t place;   // in its spelling
    int32_t length;  // of its spelling
  };

  bool may_follow(std::size_t index, const PhraseProgress& progress) const {
    return tokens_[index].place == 0 || progress.is_reached[index - 1];
  }

  // Of equal phrases, the first is met by the first occurrence, the second by the second.
  bool is_met(int32_t phrase, const PhraseProgress& progress) const { return progress.counts[phrase] > ranks_[phrase]; }

  std::vector<Token> tokens_;          // of all spellings
  std::vector<int32_t> lengths_;       // the shortest spelling of each phrase
  std::vector<int32_t> ranks_;         // equal phrases before each phrase
  std::vector<uint8_t> is_word_part_;  // for each token of the vocabulary; empty if none is
};

// A continuation, and how many tokens of the phrases its hypothesis lacks then.
struct Continuation {
  Candidate candidate;
  int32_t missing;

  // What the total will be once the phrases are complete.
  float estimate() const { return candidate.total - kCostOfToken * static_cast<float>(missing); }

  // Whether `other` will have a greater total, however far off the estimates are.
  bool is_worse_than(const Continuation& other) const {
    const float tokens = static_cast<float>(missing - other.missing);
    return estimate() + (tokens < 0 ? kCostOfPlace : kErrorOfToken * tokens) < other.estimate();
  }

  // In nats; see model/decoding/pytorch/search/phrases.py.
  static constexpr float kCostOfToken = 3, kErrorOfToken = 1.5f, kCostOfPlace = 12;
};

// Sorts continuations by their estimates, and removes what will not be among the best: those that lack more than `room`
// tokens, unless all do; all but the `width` best of those that lack equally many; all but the `size` best; and those
// that are worse than `width` others.
inline void prune(std::vector<Continuation>& all, int32_t room, std::size_t width, std::size_t size) {
  if (all.empty()) return;
  const auto lacks_less = [](const Continuation& a, const Continuation& b) { return a.missing < b.missing; };
  room = std::max(room, std::min_element(all.begin(), all.end(), lacks_less)->missing);
  const auto is_better = [](const Continuation& a, const Continuation& b) { return a.estimate() > b.estimate(); };
  std::stable_sort(all.begin(), all.end(), is_better);
  std::vector<Continuation> best;
  std::map<int32_t, std::size_t> counts;
  for (const Continuation& each : all) {
    if (best.size() < size && each.missing <= room && counts[each.missing]++ < width) best.push_back(each);
  }
  all.clear();
  for (const Continuation& each : best) {
    const auto is_worse = [&](const Continuation& other) { return each.is_worse_than(other); };
    if (std::count_if(best.begin(), best.end(), is_worse) < static_cast<std::ptrdiff_t>(width)) all.push_back(each);
  }
}

}  // namespace dragoman

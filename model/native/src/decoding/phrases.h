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
  std::vector<uint8_t> is_met;      // for each phrase
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
    for (int32_t token = 0; request.word_parts != nullptr && token < vocab_size; ++token) {
      if (request.word_parts[token]) word_parts_.push_back(token);
    }
    const int32_t* ids = request.phrase_ids;
    for (int32_t i = 0; i < request.num_spellings; ++i) {
      const auto [length, phrase] = request.spellings[i];
      if (static_cast<std::size_t>(phrase) == lengths_.size()) lengths_.push_back(length);
      lengths_[phrase] = std::min(lengths_[phrase], length);
      for (int32_t place = 0; place < length; ++place) tokens_.push_back({*ids++, phrase, place, length});
    }
  }

  bool is_empty() const { return tokens_.empty(); }

  PhraseProgress start() const {
    return {std::vector<uint8_t>(tokens_.size()), std::vector<uint8_t>(lengths_.size()), false};
  }

  // Continues a hypothesis by a token.
  void advance(int32_t token, PhraseProgress& progress) const {
    progress.has_ended = false;
    for (std::size_t i = tokens_.size(); i-- > 0;) {
      progress.is_reached[i] = tokens_[i].id == token && may_follow(i, progress);
      if (!progress.is_reached[i] || tokens_[i].place + 1 < tokens_[i].length) continue;
      progress.has_ended |= !progress.is_met[tokens_[i].phrase];
      progress.is_met[tokens_[i].phrase] = 1;
    }
  }

  // The fewest tokens that complete the phrases one after the other.
  int32_t num_missing(const PhraseProgress& progress) const {
    int32_t missing = 0, begun = 0;
    for (std::size_t i = 0; i < lengths_.size(); ++i) missing += progress.is_met[i] ? 0 : lengths_[i];
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (!progress.is_reached[i] || progress.is_met[token.phrase]) continue;
      begun = std::max(begun, lengths_[token.phrase] - token.length + token.place + 1);
    }
    return missing - begun;
  }

  // Appends the tokens that may not follow: EOS if a phrase is missing; and after a phrase, those that continue its
  // last word, except the next tokens of missing phrases.
  void forbid(const PhraseProgress& progress, int32_t eos_id, std::vector<int32_t>& forbidden) const {
    if (num_missing(progress) > 0) forbidden.push_back(eos_id);
    if (!progress.has_ended) return;
    std::vector<int32_t> next;
    visit_next(progress, [&](int32_t token) { next.push_back(token); });
    for (const int32_t token : word_parts_) {
      if (std::find(next.begin(), next.end(), token) == next.end()) forbidden.push_back(token);
    }
  }

  // Calls `visit` with the next token of every spelling of a missing phrase.
  template <typename Visit>
  void visit_next(const PhraseProgress& progress, Visit visit) const {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (!progress.is_met[tokens_[i].phrase] && may_follow(i, progress)) visit(tokens_[i].id);
    }
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

  std::vector<Token> tokens_;     // of all spellings
  std::vector<int32_t> lengths_;  // the shortest spelling of each phrase
  std::vector<int32_t> word_parts_;
};

// Sorts candidates, each with the number of tokens that its hypothesis lacks, by banks of equal numbers: the best one
// of the bank that lacks least, then the best ones of all other banks, then the second best ones, and so on.
// Candidates that lack more than `room` tokens are dropped, unless all do.
inline void sort_by_banks(std::vector<std::pair<Candidate, int32_t>>& candidates, int32_t room) {
  using Each = std::pair<Candidate, int32_t>;
  const auto is_before = [](const Each& a, const Each& b) { return a.second < b.second; };
  const int32_t least = std::min_element(candidates.begin(), candidates.end(), is_before)->second;
  const auto has_no_room = [=](const Each& each) { return each.second > std::max(room, least); };
  candidates.erase(std::remove_if(candidates.begin(), candidates.end(), has_no_room), candidates.end());
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Each& a, const Each& b) { return a.first.total > b.first.total; });
  std::map<int32_t, int32_t> sizes;
  for (auto& [candidate, bank] : candidates) {
    const int32_t place = sizes[bank]++;
    bank = bank == least && place == 0 ? -1 : place;
  }
  std::stable_sort(candidates.begin(), candidates.end(), is_before);
}

}  // namespace dragoman

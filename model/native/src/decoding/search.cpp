#include "decoding/search.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "decoding/search_beam.h"
#include "decoding/search_greedy_sample.h"

namespace dragoman {

Search::Search(const Request& request, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      options_(request.options),
      source_length_(request.source_length),
      constraints_(request, vocabulary),
      lanes_(options_.lanes) {
  if (options_.coverage_penalty != 0) lanes_[0].coverage.resize(source_length_);
}

float Search::length_divisor(std::size_t length) const {
  const bool is_gnmt = options_.length_penalty_form == LengthPenaltyForm::gnmt;
  const float base = is_gnmt ? (5 + static_cast<float>(length)) / 6 : static_cast<float>(length);
  return std::pow(base, options_.length_penalty);
}

bool Search::read(std::size_t place, const Offer& offer) const {
  float* logits = offer.logits + place * vocabulary_.size;
  offer.scores->read(logits, vocabulary_.size, constraints_, lanes_[place].tokens);
  return offer.scores->is_number();
}

void Search::extend(Lane& lane, int32_t token, float log_prob, std::size_t place, const Offer& offer) const {
  lane.tokens.push_back(token);
  lane.log_probs.push_back(log_prob);
  if (options_.return_alignment) lane.looks.push_back(offer.first_look + static_cast<int32_t>(place));
}

Hypothesis Search::finished(const Lane& parent, float log_prob, float score) const {
  Hypothesis hypothesis{score, true, parent.tokens, parent.log_probs, parent.looks};
  hypothesis.log_probs.push_back(log_prob);
  return hypothesis;
}

Hypothesis Search::unfinished(const Lane& lane, float score) const {
  return {score, false, lane.tokens, lane.log_probs, lane.looks};
}

std::unique_ptr<Search> make_search(const Request& request, const Vocabulary& vocabulary) {
  switch (request.options.strategy) {
    case Strategy::greedy: return std::make_unique<GreedySearch>(request, vocabulary);
    case Strategy::beam: return std::make_unique<BeamSearch>(request, vocabulary);
    case Strategy::sample: return std::make_unique<SampleSearch>(request, vocabulary);
  }
  throw std::invalid_argument("unknown search strategy");
}

void keep_common(const std::vector<int32_t>& others, std::vector<int32_t>& tokens) {
  const auto shorter = tokens.begin() + std::min(tokens.size(), others.size());
  tokens.erase(std::mismatch(tokens.begin(), shorter, others.begin()).first, tokens.end());
}

}  // namespace dragoman

#include "decoding/search.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dragoman {

Search::Search(const Request& request, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      options_(request.options),
      source_length_(request.source_length),
      constraints_(request, vocabulary),
      phrases_(request, vocabulary.size),
      hypotheses_(options_.max_rows) {
  hypotheses_[0].progress = phrases_.start();
  if (options_.coverage_penalty != 0) hypotheses_[0].coverage.resize(source_length_);
}

float Search::length_divisor(std::size_t length) const {
  const bool is_gnmt = options_.length_penalty_form == LengthPenaltyForm::gnmt;
  const float base = is_gnmt ? (5 + static_cast<float>(length)) / 6 : static_cast<float>(length);
  return std::pow(base, options_.length_penalty);
}

bool Search::score_tokens(std::size_t index, const StepOutput& output) const {
  float* logits = output.logits + index * vocabulary_.size;
  output.scores->compute(logits, vocabulary_.size, constraints_, hypotheses_[index].tokens);
  return output.scores->is_finite();
}

void Search::extend(Hypothesis& hypothesis, int32_t token, float log_prob, std::size_t row,
                    const StepOutput& output) const {
  hypothesis.tokens.push_back(token);
  hypothesis.log_probs.push_back(log_prob);
  if (!phrases_.is_empty()) phrases_.advance(token, hypothesis.progress);
  if (!options_.return_alignment) return;
  hypothesis.attention_rows.push_back(output.first_attention_row + static_cast<int32_t>(row));
}

FinalHypothesis Search::finalize(const Hypothesis& hypothesis, float score) const {
  return {score, false, hypothesis.tokens, hypothesis.log_probs, hypothesis.attention_rows};
}

FinalHypothesis Search::finalize(const Hypothesis& hypothesis, float score, float eos_log_prob) const {
  FinalHypothesis final = finalize(hypothesis, score);
  final.has_eos = true;
  final.log_probs.push_back(eos_log_prob);
  return final;
}

std::unique_ptr<Search> make_search(const Request& request, const Vocabulary& vocabulary) {
  switch (request.options.strategy) {
    case Strategy::greedy:
    case Strategy::sample: return make_independent_search(request, vocabulary);
    case Strategy::beam: return make_beam_search(request, vocabulary);
  }
  throw std::invalid_argument("unknown search strategy");
}

void keep_common_prefix(const std::vector<int32_t>& others, std::vector<int32_t>& tokens) {
  const auto shorter = tokens.begin() + std::min(tokens.size(), others.size());
  tokens.erase(std::mismatch(tokens.begin(), shorter, others.begin()).first, tokens.end());
}

}  // namespace dragoman

// The search of one sentence: what model/decoding/pytorch/search/ does for a batch, for one sentence at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decoding/constraints.h"
#include "decoding/phrases.h"
#include "decoding/request.h"
#include "decoding/token_scores.h"

namespace dragoman {

// A live hypothesis. When beams branch, these lists are copied, but keys and values are not.
struct Hypothesis {
  float total = 0;                      // sum of constrained log-probabilities, by which the search ranks
  std::vector<int32_t> tokens;          // produced so far
  std::vector<float> log_probs;         // of each token, unconstrained
  std::vector<int32_t> block_table;     // KV slot of each position
  std::vector<int32_t> attention_rows;  // row of each token in the attention record, if the request asks for alignment
  std::vector<float> coverage;          // summed attention to each source token, if there is a coverage penalty
  PhraseProgress progress;              // of the required phrases
};

struct FinalHypothesis {
  float score;
  bool has_eos;
  std::vector<int32_t> tokens;          // without EOS
  std::vector<float> log_probs;         // with EOS
  std::vector<int32_t> attention_rows;  // as in Hypothesis
};

// The output of one decoder step for one sentence.
struct StepOutput {
  float* logits;                // one row for each live hypothesis, in order; overwritten
  const float* attention;       // source_length weights for each live hypothesis; null unless `needs_attention`
  int32_t first_attention_row;  // index of the first of these rows in the attention record
  TokenScores* scores;          // scratch memory for one row
};

class Search {
 public:
  Search(const Request& request, const Vocabulary& vocabulary);
  virtual ~Search() = default;

  const Options& options() const { return options_; }
  std::size_t num_live() const { return num_live_; }
  Hypothesis& hypothesis(std::size_t index) { return hypotheses_[index]; }
  bool needs_attention() const { return options_.return_alignment || options_.coverage_penalty != 0; }

  // Extends every live hypothesis by one token. Returns false if the logits are not finite; the search is invalid then.
  virtual bool advance(const StepOutput& output) = 0;

  // Whether no further step can change the results, or the stop rule holds.
  virtual bool is_done() const = 0;

  // The results, best first. They are empty if the options forbid all tokens.
  virtual std::vector<FinalHypothesis> results() const = 0;

  // The tokens that the best result will certainly begin with.
  virtual std::vector<int32_t> stable_prefix() const = 0;

 protected:
  // |Y|^α, or ((5 + |Y|) / 6)^α (eq. 14 of Wu et al. 2016, https://arxiv.org/abs/1609.08144); lengths include EOS.
  float length_divisor(std::size_t length) const;

  // Appends a token; `row` is the row of the step's output that it comes from.
  void extend(Hypothesis& hypothesis, int32_t token, float log_prob, std::size_t row, const StepOutput& output) const;
  FinalHypothesis finalize(const Hypothesis& hypothesis, float score) const;
  // With EOS, which has this log-probability.
  FinalHypothesis finalize(const Hypothesis& hypothesis, float score, float eos_log_prob) const;

  // Computes the token scores of a live hypothesis. Returns false if its logits are not finite.
  bool score_tokens(std::size_t index, const StepOutput& output) const;

  const Vocabulary& vocabulary_;
  const Options options_;
  const int32_t source_length_;
  const Constraints constraints_;
  const Phrases phrases_;
  std::vector<Hypothesis> hypotheses_;  // the first num_live_ are live; the others keep their memory for later
  std::size_t num_live_ = 1;
};

// Greedy search or sampling, in search_greedy_sample.cpp; and beam search, in search_beam.cpp.
std::unique_ptr<Search> make_independent_search(const Request& request, const Vocabulary& vocabulary);
std::unique_ptr<Search> make_beam_search(const Request& request, const Vocabulary& vocabulary);

std::unique_ptr<Search> make_search(const Request& request, const Vocabulary& vocabulary);

// Cuts `tokens` to the prefix that it has in common with `others`.
void keep_common_prefix(const std::vector<int32_t>& others, std::vector<int32_t>& tokens);

}  // namespace dragoman

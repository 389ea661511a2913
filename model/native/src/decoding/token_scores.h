// The log-probabilities of all tokens for one row of logits, with and without the constraints of a hypothesis.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "decoding/constraints.h"

namespace dragoman {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Makes two passes over the row: the first finds the maximum of every block of logits, the second sums the
// exponentials. A search for the best tokens can then skip blocks by their maximum.
class TokenScores {
 public:
  static constexpr int kBlock = 128;

  // Applies the constraints to the logits in place, and keeps the pointer to them.
  void compute(float* logits, int32_t vocab_size, const Constraints& constraints, const std::vector<int32_t>& history);

  // Whether the logits are finite. Otherwise the other functions have no meaning.
  bool is_finite() const { return std::isfinite(log_sum_); }

  // log P(token | source, history) under the constraints; -inf if the token is forbidden.
  float constrained_log_prob(int32_t token) const { return (logits_[token] - max_) - log_sum_; }
  // The same without constraints, for tokens that are not forbidden.
  float log_prob(int32_t token) const;

  // The most probable token, the lowest of equal ones, or -1 if all are forbidden.
  int32_t best() const;

  // A log-probability that at least `count` tokens reach: the `count`-th largest of the blocks' maxima.
  float reached_by(std::size_t count) const;

  // A lower bound for the logits of all tokens with at least this constrained log-probability.
  float logit_bound(float log_prob) const;

  int32_t num_blocks() const { return static_cast<int32_t>(block_max_.size()); }
  float block_max(int32_t block) const { return block_max_[block]; }
  int32_t block_end(int32_t block) const { return std::min((block + 1) * kBlock, vocab_size_); }
  const float* logits() const { return logits_; }
  int32_t vocab_size() const { return vocab_size_; }

 private:
  // A token that the repetition penalty changed, and its unconstrained logit.
  struct Original {
    int32_t token;
    float logit;
  };

  void mask_forbidden();
  void normalise();
  void force(int32_t token, bool is_certain);
  void penalise_repetition(const std::vector<int32_t>& history, float penalty);
  void update_block_max(int32_t block);

  float* logits_ = nullptr;
  int32_t vocab_size_ = 0;
  float max_ = 0;                 // of the unconstrained logits
  float log_sum_ = 0;             // log Σ exp(logit - max) of the unconstrained logits
  std::vector<float> block_max_;  // of the constrained logits
  std::vector<int32_t> forbidden_;
  std::vector<float> masked_;  // unconstrained logits of the forbidden tokens
  std::vector<int32_t> produced_;
  std::vector<Original> originals_;
};

}  // namespace dragoman

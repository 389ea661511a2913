// One row of logits as a search reads it: log-probabilities, as the network gives them and under constraints.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "decoding/constraints.h"

namespace dragoman {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Reading takes two passes over the row: one for the largest logit of every block, one for the sum of
// exponentials. Whoever looks for the best tokens then passes over whole blocks by their largest.
class Scores {
 public:
  static constexpr int kBlock = 128;

  // A read overwrites the logits with what the constraints leave of them.
  void read(float* logits, int32_t vocab_size, const Constraints& constraints, const std::vector<int32_t>& history);

  // Whether the row is made of numbers; nothing below means anything otherwise.
  bool is_number() const { return std::isfinite(log_sum_); }

  // The logarithm of P(token | what came before): under the constraints, -inf where forbidden; and as the
  // network gives it, for tokens that are not forbidden.
  float ranking(int32_t token) const { return (logits_[token] - largest_) - log_sum_; }
  float log_prob(int32_t token) const;

  // The best token, of equal ones the lowest; -1 if all are forbidden.
  int32_t best() const;

  // A ranking that at least `count` tokens reach, as high as the largest of blocks tell.
  float reached_by(std::size_t count) const;

  // A bound that all logits with this ranking or more are above; some with less may be as well.
  float below(float ranking) const;

  int32_t num_blocks() const { return static_cast<int32_t>(block_largest_.size()); }
  float largest_of_block(int32_t block) const { return block_largest_[block]; }
  int32_t end_of_block(int32_t block) const;
  const float* logits() const { return logits_; }
  int32_t vocab_size() const { return vocab_size_; }

 private:
  // A token whose logit was changed, but not to -inf, and the logit it had.
  struct Original {
    int32_t token;
    float logit;
  };

  void hide_forbidden();
  void normalise();
  void force(int32_t token);
  void rescale(const std::vector<int32_t>& history, float penalty);
  void find_largest_of(int32_t block);

  float* logits_ = nullptr;
  int32_t vocab_size_ = 0;
  float largest_ = 0;  // of the network's logits
  float log_sum_ = 0;  // of the exponentials of all logits, each less the largest
  std::vector<float> block_largest_;
  std::vector<int32_t> forbidden_;
  std::vector<float> hidden_;  // the logits that the forbidden tokens had
  std::vector<int32_t> produced_;
  std::vector<Original> originals_;
};

}  // namespace dragoman

// The distribution that sampling draws from: tempered, and cut by top-k, top-p and min-p.
#pragma once

#include <cstdint>
#include <vector>

#include "decoding/request.h"
#include "decoding/token_scores.h"

namespace dragoman {

// Every limit is a threshold on the weight of a token; tokens as likely as the last one kept are kept
// too. Top-k comes first, top-p counts the probability that it left, min-p is a share of the likeliest's.
class TruncatedDistribution {
 public:
  // The token at which the distribution, laid out in the order of the vocabulary, reaches the number in
  // [0, 1); -1 if all tokens are forbidden.
  int32_t draw(const Scores& scores, const Options& options, float number);

 private:
  // Tokens of nearly the same weight.
  struct Bin {
    int32_t count;
    double mass;
  };
  // The lightest of the heaviest tokens, and what they weigh together.
  struct Cut {
    float least;
    double mass;
  };

  bool weigh(const Scores& scores, float temperature);
  float threshold(const Options& options);
  void fill_bins();
  Cut heaviest(int32_t count, double mass);
  double block_sum(std::size_t first) const;
  double total() const;
  int32_t token_at(float threshold, float number);

  std::vector<float> weights_;  // e^((logit - largest) / temperature), of every token
  std::vector<Bin> bins_;       // the lightest first
  std::vector<float> ordered_;  // the weights of one bin
};

}  // namespace dragoman

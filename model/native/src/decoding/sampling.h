// Sampling: temperature, top-k, top-p and min-p, and the random numbers that draw a token.
#pragma once

#include <cstdint>
#include <vector>

#include "decoding/request.h"
#include "decoding/token_scores.h"

namespace dragoman {

// SplitMix64 (https://doi.org/10.1145/2660193.2660195): a number in [0, 1) that depends on seed, sample and position
// only. model/decoding/pytorch/search/greedy_sample.py computes the same.
inline float uniform_number(uint64_t seed, uint32_t sample, uint32_t position) {
  uint64_t z = seed + ((uint64_t{sample} << 32) + position + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return static_cast<float>(z >> 40) / (1 << 24);
}

// Every limit is a threshold for the weight of a token, so that tokens as probable as the last one kept are kept too.
// Top-k applies first, top-p counts the probability that top-k left, and min-p is relative to the most probable token.
class TruncatedDistribution {
 public:
  // The token at which the cumulative distribution, in the order of the vocabulary, exceeds a number in [0, 1), or -1
  // if all tokens are forbidden.
  int32_t draw(const TokenScores& scores, const Options& options, float number);

 private:
  // Tokens of similar weight.
  struct Bin {
    int32_t count;
    double mass;
  };
  // The smallest weight of the most probable tokens, and their total weight.
  struct Cut {
    float min_weight;
    double mass;
  };

  bool compute_weights(const TokenScores& scores, float temperature);
  float threshold(const Options& options);
  void fill_bins();
  Cut most_probable(int32_t count, double mass);
  double block_sum(std::size_t first) const;
  double total() const;
  int32_t select(float threshold, float number);

  std::vector<float> weights_;  // e^((logit - max) / temperature) of every token
  std::vector<Bin> bins_;       // by ascending weight
  std::vector<float> ordered_;  // the weights of one bin
};

}  // namespace dragoman

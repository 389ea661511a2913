// Searches whose hypotheses know nothing of each other: greedy, and sampling.
#pragma once

#include <vector>

#include "decoding/sampling.h"
#include "decoding/search.h"

namespace dragoman {

// Every draw walks on by one token a step until it has produced EOS.
class WalkSearch : public Search {
 public:
  WalkSearch(const Request& request, const Vocabulary& vocabulary);

  bool advance(const Offer& offer) override;
  bool is_settled() const override { return num_live_ == 0; }
  std::vector<Hypothesis> results() const override;
  std::vector<int32_t> agreed() const override;

 protected:
  // The next token of a draw; -1 if all are forbidden.
  virtual int32_t choose(const Scores& scores, int32_t draw, std::size_t position) = 0;

 private:
  struct Ended {
    int32_t draw;
    Hypothesis hypothesis;
  };

  void fork();
  bool walk(std::size_t place, std::size_t row, const Offer& offer);

  std::vector<int32_t> draws_;  // of each lane
  std::vector<Ended> ended_;
};

class GreedySearch : public WalkSearch {
 public:
  using WalkSearch::WalkSearch;

 protected:
  int32_t choose(const Scores& scores, int32_t, std::size_t) override { return scores.best(); }
};

class SampleSearch : public WalkSearch {
 public:
  using WalkSearch::WalkSearch;

 protected:
  int32_t choose(const Scores& scores, int32_t draw, std::size_t position) override;

 private:
  TruncatedDistribution distribution_;
};

}  // namespace dragoman

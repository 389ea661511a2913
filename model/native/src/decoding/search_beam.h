// Beam search: the K best unfinished hypotheses go on, the best finished ones are pooled.
#pragma once

#include <vector>

#include "decoding/search.h"

namespace dragoman {

// One way in which a hypothesis may go on.
struct Candidate {
  float total;     // what the search ranks by
  float log_prob;  // of the token, as the network gives it
  int32_t parent;
  int32_t token;
};

// The best candidates of a step, best first; of equal ones the earlier lane's, then the lower token.
class Candidates {
 public:
  explicit Candidates(std::size_t capacity) : capacity_(capacity) { best_.reserve(capacity + 1); }

  void clear() { best_.clear(); }
  // Continuations of a lane whose log-probability so far is `total`; lanes must come in order.
  void add(const Scores& scores, float total, int32_t parent);
  const std::vector<Candidate>& best() const { return best_; }

 private:
  // What a candidate must have more than.
  float least() const { return best_.size() < capacity_ ? kNever : best_.back().total; }
  void insert(const Candidate& candidate);

  std::size_t capacity_;
  std::vector<Candidate> best_;
};

// Of the 2K best continuations of a step, those among the first K that end in EOS are finished and the
// K best that do not go on: a beam of one is greedy search.
class BeamSearch : public Search {
 public:
  BeamSearch(const Request& request, const Vocabulary& vocabulary);

  bool advance(const Offer& offer) override;
  bool is_settled() const override { return is_settled_; }
  std::vector<Hypothesis> results() const override;
  std::vector<int32_t> agreed() const override;

 private:
  void pool_finished();
  void keep_best(const Offer& offer);
  bool judge() const;
  float leading() const;
  float score(const Lane& lane) const;
  float coverage_penalty(const Lane& lane) const;

  Candidates candidates_;
  std::vector<Lane> next_;            // changes places with lanes_ at the end of a step
  std::vector<Hypothesis> finished_;  // the best K, best first
  int32_t num_finished_ = 0;          // those that fell out of the pool included
  std::size_t position_ = 0;          // tokens that every lane has produced
  bool is_settled_ = false;
};

}  // namespace dragoman

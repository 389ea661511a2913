// How one sentence is searched: model/decoding/pytorch/search/ for a single sentence, hypothesis by hypothesis.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decoding/constraints.h"
#include "decoding/request.h"
#include "decoding/token_scores.h"

namespace dragoman {

// A hypothesis that goes on. Lists are copied when beams branch; keys and values never are.
struct Lane {
  float total = 0;               // what the search ranks by: log-probabilities under the constraints
  std::vector<int32_t> tokens;   // produced so far
  std::vector<float> log_probs;  // the network's, of each
  std::vector<int32_t> past;     // where the state holds the keys and values of each position
  std::vector<int32_t> looks;    // which row of the attention record belongs to each token; if recorded
  std::vector<float> coverage;   // attention that each source token has got; if it counts
};

// A hypothesis that does not go on.
struct Hypothesis {
  float score;
  bool has_eos;
  std::vector<int32_t> tokens;   // without EOS
  std::vector<float> log_probs;  // with EOS
  std::vector<int32_t> looks;    // one a token; if recorded
};

// What one decoder step offers to a sentence.
struct Offer {
  float* logits;           // a row for each live lane, in order; overwritten
  const float* attention;  // a row of source_length weights for each, or null if nobody asked
  int32_t first_look;      // place of the first of those rows in the attention record
  Scores* scores;          // room for reading one row
};

class Search {
 public:
  Search(const Request& request, const Vocabulary& vocabulary);
  virtual ~Search() = default;

  const Options& options() const { return options_; }
  std::size_t num_live() const { return num_live_; }
  Lane& lane(std::size_t place) { return lanes_[place]; }
  bool needs_attention() const { return options_.return_alignment || options_.coverage_penalty != 0; }

  // Lets every lane go on by one token. False if the network's numbers broke: nothing below holds then.
  virtual bool advance(const Offer& offer) = 0;

  // Whether the search has what it wants.
  virtual bool is_settled() const = 0;

  // Best first; none if the options left nothing to produce.
  virtual std::vector<Hypothesis> results() const = 0;

  // The tokens that the best result is sure to begin with.
  virtual std::vector<int32_t> agreed() const = 0;

 protected:
  // |Y|^α, or ((5 + |Y|) / 6)^α; lengths count EOS.
  float length_divisor(std::size_t length) const;

  // One token more; `place` is the row of the step that it comes from.
  void extend(Lane& lane, int32_t token, float log_prob, std::size_t place, const Offer& offer) const;
  Hypothesis finished(const Lane& parent, float log_prob, float score) const;
  Hypothesis unfinished(const Lane& lane, float score) const;

  // What may follow a live lane. False if its row is not made of numbers.
  bool read(std::size_t place, const Offer& offer) const;

  const Vocabulary& vocabulary_;
  const Options options_;
  const int32_t source_length_;
  const Constraints constraints_;
  std::vector<Lane> lanes_;  // only the first num_live_ go on; the others keep their memory for later
  std::size_t num_live_ = 1;
};

std::unique_ptr<Search> make_search(const Request& request, const Vocabulary& vocabulary);

// Cuts `tokens` to what it has in common with the beginning of `others`.
void keep_common(const std::vector<int32_t>& others, std::vector<int32_t>& tokens);

}  // namespace dragoman

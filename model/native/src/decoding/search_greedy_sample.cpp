// Greedy search and sampling, whose hypotheses are independent of each other.

#include <algorithm>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "decoding/sampling.h"
#include "decoding/search.h"

namespace dragoman {
namespace {

// Draws one or more samples, each token by token until EOS.
class IndependentSearch : public Search {
 public:
  IndependentSearch(const Request& request, const Vocabulary& vocabulary)
      : Search(request, vocabulary), samples_(options_.max_rows) {
    std::iota(samples_.begin(), samples_.end(), 0);
  }

  bool advance(const StepOutput& output) override {
    // Within the requested prefix all samples are equal, and one row represents them. They fork behind it.
    const bool forks = hypotheses_[0].tokens.size() == constraints_.prefix_length();
    if (forks) {
      num_live_ = hypotheses_.size();
      std::fill(hypotheses_.begin() + 1, hypotheses_.end(), hypotheses_[0]);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < num_live_; ++i) {
      if ((i == 0 || !forks) && !score_tokens(i, output)) return false;
      if (!extend_by_choice(i, forks ? 0 : i, output)) continue;
      std::swap(hypotheses_[kept], hypotheses_[i]);
      std::swap(samples_[kept++], samples_[i]);
    }
    num_live_ = kept;
    return true;
  }

  bool is_done() const override { return num_live_ == 0; }

  std::vector<FinalHypothesis> results() const override {
    std::vector<Finished> all = finished_;
    for (std::size_t i = 0; i < num_live_; ++i) {
      const float score = hypotheses_[i].total / length_divisor(hypotheses_[i].tokens.size());
      all.push_back({samples_[i], finalize(hypotheses_[i], score)});
    }
    const auto rank = [](const Finished& one) {
      return std::make_tuple(!one.hypothesis.has_eos, -one.hypothesis.score, one.sample);
    };
    std::sort(all.begin(), all.end(), [&](const Finished& a, const Finished& b) { return rank(a) < rank(b); });
    std::vector<FinalHypothesis> results;
    for (Finished& one : all) results.push_back(std::move(one.hypothesis));
    return results;
  }

  std::vector<int32_t> stable_prefix() const override {
    std::vector<int32_t> tokens = finished_.empty() ? hypotheses_[0].tokens : finished_[0].hypothesis.tokens;
    for (const Finished& one : finished_) keep_common_prefix(one.hypothesis.tokens, tokens);
    for (std::size_t i = 0; i < num_live_; ++i) keep_common_prefix(hypotheses_[i].tokens, tokens);
    return tokens;
  }

 private:
  struct Finished {
    int32_t sample;
    FinalHypothesis hypothesis;
  };

  // The next token of a sample, or -1 if all tokens are forbidden.
  int32_t choose(const TokenScores& scores, int32_t sample, std::size_t position) {
    if (options_.strategy == Strategy::greedy) return scores.best();
    const float number = uniform_number(options_.seed, sample, static_cast<uint32_t>(position));
    return distribution_.draw(scores, options_, number);
  }

  // Returns whether the hypothesis stays live.
  bool extend_by_choice(std::size_t index, std::size_t row, const StepOutput& output) {
    Hypothesis& hypothesis = hypotheses_[index];
    const TokenScores& scores = *output.scores;
    const int32_t token = choose(scores, samples_[index], hypothesis.tokens.size());
    if (token < 0) return false;
    hypothesis.total += scores.constrained_log_prob(token);
    if (token == vocabulary_.eos_id) {
      const float score = hypothesis.total / length_divisor(hypothesis.tokens.size() + 1);
      finished_.push_back({samples_[index], finalize(hypothesis, score, scores.log_prob(token))});
      return false;
    }
    extend(hypothesis, token, scores.log_prob(token), row, output);
    return true;
  }

  std::vector<int32_t> samples_;  // the number of each hypothesis's sample
  std::vector<Finished> finished_;
  TruncatedDistribution distribution_;
};

}  // namespace

std::unique_ptr<Search> make_independent_search(const Request& request, const Vocabulary& vocabulary) {
  return std::make_unique<IndependentSearch>(request, vocabulary);
}

}  // namespace dragoman

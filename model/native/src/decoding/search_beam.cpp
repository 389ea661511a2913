// Beam search: each step keeps the K best unfinished hypotheses and pools the K best finished ones.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "decoding/phrases.h"
#include "decoding/search.h"

namespace dragoman {
namespace {

// The best candidates of a step, best first. Ties go to the earlier parent, then to the lower token.
class Candidates {
 public:
  explicit Candidates(std::size_t capacity) : capacity_(capacity) { best_.reserve(capacity + 1); }

  void clear() { best_.clear(); }
  // Replaces the candidates by others, at most as many as the capacity, in their order.
  void assign(const std::vector<Continuation>& others) {
    clear();
    for (const Continuation& each : others) best_.push_back(each.candidate);
  }
  std::size_t capacity() const { return capacity_; }
  const std::vector<Candidate>& best() const { return best_; }

  // Adds the continuations of a hypothesis; hypotheses must come in order. Most blocks of the vocabulary contain no
  // candidate, and are skipped by their largest logit.
  void add(const TokenScores& scores, float total, int32_t parent) {
    // There are no candidates yet to compare the first hypothesis with, but it has at most `capacity_` of the best.
    const float floor = best_.empty() ? scores.reached_by(capacity_) : kNever;
    add(scores, total, parent, floor, [](int32_t) { return true; });
  }

  // Adds the continuations by the tokens that are allowed, if their log-probability is at least `floor`.
  template <typename IsAllowed>
  void add(const TokenScores& scores, float total, int32_t parent, float floor, IsAllowed is_allowed) {
    float bound = scores.logit_bound(std::max(floor, threshold() - total));
    for (int32_t block = 0; block < scores.num_blocks(); ++block) {
      if (!(scores.block_max(block) > bound)) continue;
      for (int32_t token = block * TokenScores::kBlock; token < scores.block_end(block); ++token) {
        if (!(scores.logits()[token] > bound) || !is_allowed(token)) continue;
        const float extended = total + scores.constrained_log_prob(token);
        if (!(extended > threshold())) continue;
        insert({extended, scores.log_prob(token), parent, token});
        bound = std::max(bound, scores.logit_bound(threshold() - total));
      }
    }
  }

 private:
  // A candidate must have a greater total than this.
  float threshold() const { return best_.size() < capacity_ ? kNever : best_.back().total; }

  void insert(const Candidate& candidate) {
    const auto is_better = [](float total, const Candidate& other) { return total > other.total; };
    best_.insert(std::upper_bound(best_.begin(), best_.end(), candidate.total, is_better), candidate);
    if (best_.size() > capacity_) best_.pop_back();
  }

  std::size_t capacity_;
  std::vector<Candidate> best_;
};

// Of the 2K best continuations of a step, those that end in EOS and are among the first K become finished hypotheses.
// The K best that do not end in EOS stay live. With K = 1 this is greedy search. With phrases, `prune` sorts the
// continuations and removes most.
class BeamSearch : public Search {
 public:
  BeamSearch(const Request& request, const Vocabulary& vocabulary)
      : Search(request, vocabulary), candidates_(2 * options_.max_rows), next_(options_.max_rows) {}

  bool advance(const StepOutput& output) override {
    candidates_.clear();
    continuations_.clear();
    for (std::size_t i = 0; i < num_live_; ++i) {
      Hypothesis& hypothesis = hypotheses_[i];
      if (!score_tokens(i, output)) return false;
      for (std::size_t source = 0; source < hypothesis.coverage.size(); ++source) {
        hypothesis.coverage[source] += output.attention[i * source_length_ + source];
      }
      if (phrases_.is_empty()) {
        candidates_.add(*output.scores, hypothesis.total, static_cast<int32_t>(i));
      } else {
        add_continuations(*output.scores, static_cast<int32_t>(i));
      }
    }
    if (!phrases_.is_empty()) choose_continuations();
    pool_finished();
    keep_best(output);
    ++position_;
    is_done_ = decide_done();
    return true;
  }

  bool is_done() const override { return is_done_; }

  // Unfinished hypotheses are results only if none has finished, or at the maximum length under `count` and `pool`.
  std::vector<FinalHypothesis> results() const override {
    std::vector<FinalHypothesis> results = finished_;
    const bool is_counted = options_.stop == Stop::count || options_.stop == Stop::pool;
    const bool is_at_limit = position_ >= static_cast<std::size_t>(options_.max_length);
    const bool with_live = finished_.empty() || (is_counted && is_at_limit);
    for (std::size_t i = 0; with_live && i < num_live_; ++i) {
      results.push_back(finalize(hypotheses_[i], score(hypotheses_[i])));
    }
    const auto is_better = [](const FinalHypothesis& a, const FinalHypothesis& b) { return a.score > b.score; };
    std::stable_sort(results.begin(), results.end(), is_better);
    const std::size_t count = options_.num_hypotheses;
    if (results.size() > count) results.erase(results.begin() + count, results.end());
    return results;
  }

  std::vector<int32_t> stable_prefix() const override {
    std::vector<int32_t> tokens = finished_.empty() ? hypotheses_[0].tokens : finished_[0].tokens;
    for (std::size_t i = 0; i < num_live_; ++i) keep_common_prefix(hypotheses_[i].tokens, tokens);
    return tokens;
  }

 private:
  // Adds the continuations of a hypothesis that `choose_continuations` may keep: those by the next tokens of missing
  // phrases, and the best others, which all lack equally many tokens.
  void add_continuations(const TokenScores& scores, int32_t parent) {
    const Hypothesis& hypothesis = hypotheses_[parent];
    const PhraseProgress& progress = hypothesis.progress;
    const bool is_complete = phrases_.num_missing(progress) == 0;
    const bool is_in_prefix = position_ < constraints_.prefix_length();
    const std::vector<int32_t> next = phrases_.next_tokens(progress);
    const auto is_next = [&](int32_t token) { return std::find(next.begin(), next.end(), token) != next.end(); };
    // Where nothing but EOS may be forbidden, one block more reaches the floor.
    const float floor = progress.has_ended ? kNever : scores.reached_by(candidates_.capacity() + 1);
    candidates_.clear();
    candidates_.add(scores, hypothesis.total, parent, floor, [&](int32_t token) {
      if (token == vocabulary_.eos_id) return is_complete;
      return is_in_prefix || !phrases_.spoils_word(token, progress) || is_next(token);
    });
    const int32_t num_unmet = phrases_.num_unmet(progress);
    std::size_t num_others = 0;
    for (const Candidate& each : candidates_.best()) {
      if (!is_next(each.token) && num_others++ < width()) continuations_.push_back({each, num_unmet});
    }
    for (const int32_t token : next) {
      const float total = hypothesis.total + scores.constrained_log_prob(token);
      if (total == kNever) continue;
      PhraseProgress after = progress;
      phrases_.advance(token, after);
      continuations_.push_back({{total, scores.log_prob(token), parent, token}, phrases_.num_missing(after)});
    }
  }

  void choose_continuations() {
    const std::size_t count = options_.num_hypotheses;
    if (finished_.size() >= count) {
      const float to_beat = finished_[count - 1].score, divisor = length_divisor(options_.max_length);
      const auto is_late = [&](const Continuation& each) { return each.estimate() / divisor <= to_beat; };
      continuations_.erase(std::remove_if(continuations_.begin(), continuations_.end(), is_late), continuations_.end());
    }
    const auto room = options_.max_length - static_cast<int32_t>(position_) - 2;
    prune(continuations_, room, width(), candidates_.capacity());
    candidates_.assign(continuations_);
  }

  // The most hypotheses that lack equally many tokens of the phrases.
  std::size_t width() const {
    return std::max(hypotheses_.size() / 4, static_cast<std::size_t>(options_.num_hypotheses));
  }

  void pool_finished() {
    const std::vector<Candidate>& best = candidates_.best();
    const std::size_t beam_size = hypotheses_.size();
    for (std::size_t i = 0; i < std::min(best.size(), beam_size); ++i) {
      if (best[i].token != vocabulary_.eos_id) continue;
      const Hypothesis& parent = hypotheses_[best[i].parent];
      const float score = best[i].total / length_divisor(position_ + 1) + coverage_penalty(parent);
      const auto is_better = [](float mine, const FinalHypothesis& other) { return mine > other.score; };
      const auto next = std::upper_bound(finished_.begin(), finished_.end(), score, is_better);
      finished_.insert(next, finalize(parent, score, best[i].log_prob));
      ++num_finished_;
    }
    if (finished_.size() > beam_size) finished_.erase(finished_.begin() + beam_size, finished_.end());
  }

  void keep_best(const StepOutput& output) {
    std::size_t kept = 0;
    for (const Candidate& candidate : candidates_.best()) {
      if (candidate.token == vocabulary_.eos_id || kept == hypotheses_.size()) continue;
      Hypothesis& child = next_[kept++];
      child = hypotheses_[candidate.parent];
      child.total = candidate.total;
      extend(child, candidate.token, candidate.log_prob, candidate.parent, output);
    }
    num_live_ = kept;
    hypotheses_.swap(next_);
  }

  // The search of n results with K beams is done
  // - under every stop rule, when no live hypothesis can enter the n best finished ones;
  // - under `patience`, when at least patience × K and at least n hypotheses have finished, and no live hypothesis
  //   scores better than the best finished one: the first to finish is not always the best;
  // - under `first`, when the best continuation of a step ends in EOS;
  // - under `count`, when at least patience × K and at least n hypotheses have finished;
  // - under `pool`, when no live hypothesis scores better than the worst of the K best finished ones.
  // The first rule loses nothing. Log-probabilities only fall, the divisor only grows with the length, and the coverage
  // penalty is at most 0, so that the final score of a live hypothesis is at most its present total divided by the
  // divisor of the maximum length.
  bool decide_done() const {
    if (num_live_ == 0) return true;
    const std::size_t count = options_.num_hypotheses;
    const float attainable = best_live_total() / length_divisor(options_.max_length);
    if (finished_.size() >= count && finished_[count - 1].score >= attainable) return true;
    if (options_.stop == Stop::first) return candidates_.best()[0].token == vocabulary_.eos_id;
    if (options_.stop == Stop::pool) {
      return finished_.size() == hypotheses_.size() && finished_.back().score >= best_live_score();
    }
    if (options_.stop == Stop::all || finished_.size() < count) return false;
    const float patience = options_.patience * static_cast<float>(hypotheses_.size());
    const float enough = std::max(patience, static_cast<float>(count));
    if (static_cast<float>(num_finished_) < enough) return false;
    return options_.stop == Stop::count || finished_[0].score >= best_live_score();
  }

  float best_live_total() const {
    if (phrases_.is_empty()) return hypotheses_[0].total;
    float best = kNever;
    for (std::size_t i = 0; i < num_live_; ++i) best = std::max(best, hypotheses_[i].total);
    return best;
  }

  float best_live_score() const {
    float best = kNever;
    for (std::size_t i = 0; i < num_live_; ++i) best = std::max(best, score(hypotheses_[i]));
    return best;
  }

  float score(const Hypothesis& hypothesis) const {
    return hypothesis.total / length_divisor(position_) + coverage_penalty(hypothesis);
  }

  // β · Σ_i log(min(Σ_j a_ij, 1)), where a_ij is the attention of target token j to source token i: a penalty for
  // source tokens with little attention (eq. 14 of Wu et al. 2016, https://arxiv.org/abs/1609.08144).
  float coverage_penalty(const Hypothesis& hypothesis) const {
    constexpr float kMinAttention = std::numeric_limits<float>::min();  // keeps the penalty finite
    float sum = 0;
    for (const float attention : hypothesis.coverage) {
      sum += std::log(std::min(std::max(attention, kMinAttention), 1.0f));
    }
    return options_.coverage_penalty * sum;
  }

  Candidates candidates_;
  std::vector<Continuation> continuations_;  // of all hypotheses, if there are phrases
  std::vector<Hypothesis> next_;             // swapped with hypotheses_ at the end of a step
  std::vector<FinalHypothesis> finished_;    // the K best, best first
  int32_t num_finished_ = 0;                 // all, with those that the pool dropped
  std::size_t position_ = 0;                 // number of tokens of every live hypothesis
  bool is_done_ = false;
};

}  // namespace

std::unique_ptr<Search> make_beam_search(const Request& request, const Vocabulary& vocabulary) {
  return std::make_unique<BeamSearch>(request, vocabulary);
}

}  // namespace dragoman

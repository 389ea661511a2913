#include "decoding/search_beam.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dragoman {

void Candidates::add(const Scores& scores, float total, int32_t parent) {
  // Most blocks hold nothing that could get in, and are passed over by their largest logit. The first lane
  // finds no candidates to be better than, but may not offer more than there is room for.
  const float least_of_lane = best_.empty() ? scores.reached_by(capacity_) : kNever;
  float bound = scores.below(std::max(least_of_lane, least() - total));
  for (int32_t block = 0; block < scores.num_blocks(); ++block) {
    if (!(scores.largest_of_block(block) > bound)) continue;
    for (int32_t token = block * Scores::kBlock; token < scores.end_of_block(block); ++token) {
      if (!(scores.logits()[token] > bound)) continue;
      const float reached = total + scores.ranking(token);
      if (!(reached > least())) continue;
      insert({reached, scores.log_prob(token), parent, token});
      bound = std::max(bound, scores.below(least() - total));
    }
  }
}

void Candidates::insert(const Candidate& candidate) {
  const auto is_better = [](float total, const Candidate& other) { return total > other.total; };
  best_.insert(std::upper_bound(best_.begin(), best_.end(), candidate.total, is_better), candidate);
  if (best_.size() > capacity_) best_.pop_back();
}

BeamSearch::BeamSearch(const Request& request, const Vocabulary& vocabulary)
    : Search(request, vocabulary), candidates_(2 * options_.lanes), next_(options_.lanes) {}

bool BeamSearch::advance(const Offer& offer) {
  candidates_.clear();
  for (std::size_t place = 0; place < num_live_; ++place) {
    Lane& lane = lanes_[place];
    if (!read(place, offer)) return false;
    for (std::size_t i = 0; i < lane.coverage.size(); ++i) {
      lane.coverage[i] += offer.attention[place * source_length_ + i];
    }
    candidates_.add(*offer.scores, lane.total, static_cast<int32_t>(place));
  }
  pool_finished();
  keep_best(offer);
  ++position_;
  is_settled_ = judge();
  return true;
}

void BeamSearch::pool_finished() {
  const std::vector<Candidate>& best = candidates_.best();
  for (std::size_t i = 0; i < std::min(best.size(), lanes_.size()); ++i) {
    if (best[i].token != vocabulary_.eos_id) continue;
    const Lane& parent = lanes_[best[i].parent];
    const float score = best[i].total / length_divisor(position_ + 1) + coverage_penalty(parent);
    const auto is_better = [](float mine, const Hypothesis& other) { return mine > other.score; };
    const auto place = std::upper_bound(finished_.begin(), finished_.end(), score, is_better);
    finished_.insert(place, finished(parent, best[i].log_prob, score));
    ++num_finished_;
  }
  if (finished_.size() > lanes_.size()) finished_.erase(finished_.begin() + lanes_.size(), finished_.end());
}

void BeamSearch::keep_best(const Offer& offer) {
  std::size_t kept = 0;
  for (const Candidate& candidate : candidates_.best()) {
    if (candidate.token == vocabulary_.eos_id || kept == lanes_.size()) continue;
    Lane& child = next_[kept++];
    child = lanes_[candidate.parent];
    child.total = candidate.total;
    extend(child, candidate.token, candidate.log_prob, candidate.parent, offer);
  }
  num_live_ = kept;
  lanes_.swap(next_);
}

// A sentence is settled
// - by any rule, when no live hypothesis can still enter the n best;
// - by `patience`, when patience × K hypotheses, and at least n, have finished and none under way is ahead
//   of the best: those that finish first are not always worth most;
// - by `first`, when the best continuation of a step ends in EOS.
// The first cut loses nothing: log-probabilities only fall, the divisor only grows with the length and the
// coverage penalty is at most 0, so that a live hypothesis will score at most its log-probability so far
// over the divisor at the longest length.
bool BeamSearch::judge() const {
  if (num_live_ == 0) return true;
  const std::size_t count = options_.num_hypotheses;
  const float attainable = lanes_[0].total / length_divisor(options_.longest);
  if (finished_.size() >= count && finished_[count - 1].score >= attainable) return true;
  if (options_.stop == Stop::first) return candidates_.best()[0].token == vocabulary_.eos_id;
  if (options_.stop == Stop::all || finished_.size() < count) return false;
  const float enough = std::max(options_.patience * static_cast<float>(lanes_.size()), static_cast<float>(count));
  return static_cast<float>(num_finished_) >= enough && finished_[0].score >= leading();
}

// The best score so far of a live hypothesis.
float BeamSearch::leading() const {
  float best = kNever;
  for (std::size_t place = 0; place < num_live_; ++place) best = std::max(best, score(lanes_[place]));
  return best;
}

float BeamSearch::score(const Lane& lane) const {
  return lane.total / length_divisor(position_) + coverage_penalty(lane);
}

// β · Σ_i log(min(Σ_j a_ij, 1)): source tokens that were hardly attended to count against a hypothesis
// (eq. 14 of Wu et al. 2016, https://arxiv.org/abs/1609.08144).
float BeamSearch::coverage_penalty(const Lane& lane) const {
  // An ignored token costs much, but not infinitely much.
  constexpr float kLeast = std::numeric_limits<float>::min();
  float sum = 0;
  for (const float attention : lane.coverage) sum += std::log(std::min(std::max(attention, kLeast), 1.0f));
  return options_.coverage_penalty * sum;
}

// Unfinished hypotheses only where none has finished.
std::vector<Hypothesis> BeamSearch::results() const {
  std::vector<Hypothesis> results = finished_;
  for (std::size_t place = 0; finished_.empty() && place < num_live_; ++place) {
    const Lane& lane = lanes_[place];
    results.push_back(unfinished(lane, score(lane)));
  }
  const auto is_better = [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; };
  std::stable_sort(results.begin(), results.end(), is_better);
  const std::size_t count = options_.num_hypotheses;
  if (results.size() > count) results.erase(results.begin() + count, results.end());
  return results;
}

std::vector<int32_t> BeamSearch::agreed() const {
  std::vector<int32_t> tokens = finished_.empty() ? lanes_[0].tokens : finished_[0].tokens;
  for (std::size_t place = 0; place < num_live_; ++place) keep_common(lanes_[place].tokens, tokens);
  return tokens;
}

}  // namespace dragoman

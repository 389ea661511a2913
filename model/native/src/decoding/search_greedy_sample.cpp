#include "decoding/search_greedy_sample.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "decoding/random.h"

namespace dragoman {

WalkSearch::WalkSearch(const Request& request, const Vocabulary& vocabulary)
    : Search(request, vocabulary), draws_(options_.lanes) {
  std::iota(draws_.begin(), draws_.end(), 0);
}

bool WalkSearch::advance(const Offer& offer) {
  // Up to the first token that is not given all draws are the same, and one row serves them all.
  const bool forks = lanes_[0].tokens.size() == constraints_.num_given();
  if (forks) fork();
  std::size_t kept = 0;
  for (std::size_t place = 0; place < num_live_; ++place) {
    if ((place == 0 || !forks) && !read(place, offer)) return false;
    if (!walk(place, forks ? 0 : place, offer)) continue;
    std::swap(lanes_[kept], lanes_[place]);
    std::swap(draws_[kept++], draws_[place]);
  }
  num_live_ = kept;
  return true;
}

void WalkSearch::fork() {
  num_live_ = lanes_.size();
  std::fill(lanes_.begin() + 1, lanes_.end(), lanes_[0]);
}

// Whether the lane goes on.
bool WalkSearch::walk(std::size_t place, std::size_t row, const Offer& offer) {
  Lane& lane = lanes_[place];
  const Scores& scores = *offer.scores;
  const int32_t token = choose(scores, draws_[place], lane.tokens.size());
  if (token < 0) return false;
  lane.total += scores.ranking(token);
  if (token == vocabulary_.eos_id) {
    const float score = lane.total / length_divisor(lane.tokens.size() + 1);
    ended_.push_back({draws_[place], finished(lane, scores.log_prob(token), score)});
    return false;
  }
  extend(lane, token, scores.log_prob(token), row, offer);
  return true;
}

std::vector<Hypothesis> WalkSearch::results() const {
  std::vector<Ended> all = ended_;
  for (std::size_t place = 0; place < num_live_; ++place) {
    const float score = lanes_[place].total / length_divisor(lanes_[place].tokens.size());
    all.push_back({draws_[place], unfinished(lanes_[place], score)});
  }
  std::sort(all.begin(), all.end(), [](const Ended& a, const Ended& b) {
    return std::make_tuple(!a.hypothesis.has_eos, -a.hypothesis.score, a.draw) <
           std::make_tuple(!b.hypothesis.has_eos, -b.hypothesis.score, b.draw);
  });
  std::vector<Hypothesis> results;
  for (Ended& ended : all) results.push_back(std::move(ended.hypothesis));
  return results;
}

std::vector<int32_t> WalkSearch::agreed() const {
  std::vector<int32_t> tokens = ended_.empty() ? lanes_[0].tokens : ended_[0].hypothesis.tokens;
  for (const Ended& ended : ended_) keep_common(ended.hypothesis.tokens, tokens);
  for (std::size_t place = 0; place < num_live_; ++place) keep_common(lanes_[place].tokens, tokens);
  return tokens;
}

int32_t SampleSearch::choose(const Scores& scores, int32_t draw, std::size_t position) {
  const float number = uniform_number(options_.seed, draw, static_cast<uint32_t>(position));
  return distribution_.draw(scores, options_, number);
}

}  // namespace dragoman

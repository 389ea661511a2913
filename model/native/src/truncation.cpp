#include "truncation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "simd.h"

namespace dragoman {
namespace {

constexpr std::size_t kBlock = 128;  // weights that are added up before the next look at the sum

// Weights, of which the largest is 1, are put in order band by band, each down to a share of the last.
constexpr float kFirstBand = 0.25f, kBandWidth = 4, kLastBand = 1e-7f;

}  // namespace

int32_t TruncatedDistribution::draw(const Scores& scores, const Options& options, float number) {
  if (!weigh(scores, options.temperature)) return -1;
  return token_at(threshold(options), number);
}

// The likeliest token has weight 1, a forbidden one 0.
bool TruncatedDistribution::weigh(const Scores& scores, float temperature) {
  const int32_t best = scores.best();
  if (best < 0) return false;
  const int32_t size = scores.vocab_size();
  weights_.resize(rounded_up(size, kBlock));
  std::copy_n(scores.logits(), size, weights_.begin());
  std::fill(weights_.begin() + size, weights_.end(), kNever);
  const float largest = scores.logits()[best];
  for (std::size_t i = 0; i < weights_.size(); i += kLanes) {
    store(&weights_[i], exponential((floats(&weights_[i]) - largest) / temperature));
  }
  return true;
}

// The weight that a token must have to stay.
float TruncatedDistribution::threshold(const Options& options) {
  const bool has_top_k = options.top_k > 0, has_top_p = options.top_p < 1;
  if (!has_top_k && !has_top_p) return options.min_p;
  double held = total();
  order_heaviest(has_top_k ? options.top_k : weights_.size(), has_top_k ? held : held * options.top_p);
  if (has_top_k) {
    ordered_.resize(std::min<std::size_t>(ordered_.size(), options.top_k));
    held = std::accumulate(ordered_.begin(), ordered_.end(), 0.0);
  }
  float least = ordered_[0];
  double before = 0;
  for (const float weight : ordered_) {
    if (before >= held * options.top_p) break;
    least = weight;
    before += weight;
  }
  return std::max(least, options.min_p);
}

// As few as need be put in order: at least `count` tokens, or as many as hold `mass`, or all that are allowed.
void TruncatedDistribution::order_heaviest(std::size_t count, double mass) {
  ordered_.clear();
  double held = 0;
  float above = std::numeric_limits<float>::infinity();
  while (above > 0 && ordered_.size() < count && held < mass) {
    const float least = above > 1 ? kFirstBand : (above > kLastBand ? above / kBandWidth : 0);
    const auto before = static_cast<std::ptrdiff_t>(ordered_.size());
    for (const float weight : weights_) {
      if (weight > least && weight <= above) ordered_.push_back(weight);
    }
    std::sort(ordered_.begin() + before, ordered_.end(), std::greater<float>());
    held = std::accumulate(ordered_.begin() + before, ordered_.end(), held);
    above = least;
  }
}

double TruncatedDistribution::block_sum(std::size_t first) const {
  Floats sums = {};
  for (std::size_t i = first; i < first + kBlock; i += kLanes) sums += floats(&weights_[i]);
  return sum(sums);
}

double TruncatedDistribution::total() const {
  double total = 0;
  for (std::size_t first = 0; first < weights_.size(); first += kBlock) total += block_sum(first);
  return total;
}

int32_t TruncatedDistribution::token_at(float threshold, float number) {
  for (std::size_t i = 0; threshold > 0 && i < weights_.size(); i += kLanes) {
    const Floats weights = floats(&weights_[i]);
    store(&weights_[i], weights < threshold ? Floats{} : weights);
  }
  const double target = number * total();
  double reached = 0;
  std::size_t first = 0;
  for (; first + kBlock < weights_.size(); first += kBlock) {
    const double held = block_sum(first);
    if (reached + held > target) break;
    reached += held;
  }
  // Rounding may leave the target just out of the block's reach: its last token it is, then.
  int32_t last = -1;
  for (std::size_t i = first; i < weights_.size() && reached <= target; ++i) {
    if (weights_[i] == 0) continue;
    reached += weights_[i];
    last = static_cast<int32_t>(i);
  }
  return last;
}

}  // namespace dragoman

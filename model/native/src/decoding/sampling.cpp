#include "decoding/sampling.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "kernels/simd.h"

namespace dragoman {
namespace {

constexpr std::size_t kSumBlock = 128;  // weights that `select` adds before it compares the sum with its target
constexpr int32_t kAnyCount = std::numeric_limits<int32_t>::max();
constexpr double kAnyMass = std::numeric_limits<double>::infinity();

// Bins divide each octave below the weight 1 into 16, by the exponent and the first bits of the fraction.
constexpr int kBinShift = 19;
constexpr int32_t kBins = 32 * 16;  // the first bin holds all weights below the last octave

int32_t bin_of(float weight) {
  constexpr int32_t kOne = 0x3f800000 >> kBinShift;
  int32_t word;
  std::memcpy(&word, &weight, sizeof(word));
  return std::max(0, kBins - 1 - kOne + (word >> kBinShift));
}

}  // namespace

int32_t TruncatedDistribution::draw(const TokenScores& scores, const Options& options, float number) {
  if (options.top_k == 1) return scores.best();  // the lowest of equally probable tokens, as in greedy search
  if (!compute_weights(scores, options.temperature)) return -1;
  return select(threshold(options), number);
}

// The most probable token gets the weight 1, forbidden tokens get 0.
bool TruncatedDistribution::compute_weights(const TokenScores& scores, float temperature) {
  const int32_t best = scores.best();
  if (best < 0) return false;
  const int32_t size = scores.vocab_size();
  weights_.resize(round_up(size, kSumBlock));
  std::copy_n(scores.logits(), size, weights_.begin());
  std::fill(weights_.begin() + size, weights_.end(), kNever);
  const float largest = scores.logits()[best];
  for (std::size_t i = 0; i < weights_.size(); i += kLanes) {
    const Floats distance = (floats(&weights_[i]) - largest) / temperature;
    const Floats weight = exp_of_negative(distance);
    store(&weights_[i], distance < kMinExponent ? Floats{} : weight);
  }
  return true;
}

// The weight that a token must have to be kept.
float TruncatedDistribution::threshold(const Options& options) {
  float least = options.min_p;
  if (options.top_k == 0 && options.top_p >= 1) return least;
  fill_bins();
  double held = total();
  if (options.top_k > 0) {
    const Cut cut = most_probable(options.top_k, kAnyMass);
    least = std::max(least, cut.min_weight);
    held = cut.mass;
  }
  if (options.top_p < 1) least = std::max(least, most_probable(kAnyCount, held * options.top_p).min_weight);
  return least;
}

// Bins make a full sort unnecessary: only the bin that contains a limit is sorted.
void TruncatedDistribution::fill_bins() {
  bins_.assign(kBins, {0, 0.0});
  for (const float weight : weights_) {
    if (weight == 0) continue;
    Bin& bin = bins_[bin_of(weight)];
    ++bin.count;
    bin.mass += weight;
  }
}

// The fewest most probable tokens whose number is `count` or whose total weight is `mass`, or all tokens.
TruncatedDistribution::Cut TruncatedDistribution::most_probable(int32_t count, double mass) {
  int32_t counted = 0;
  double held = 0;
  int32_t bin = kBins - 1;
  for (; bin > 0 && counted + bins_[bin].count < count && held + bins_[bin].mass < mass; --bin) {
    counted += bins_[bin].count;
    held += bins_[bin].mass;
  }
  ordered_.clear();
  for (const float weight : weights_) {
    if (weight != 0 && bin_of(weight) == bin) ordered_.push_back(weight);
  }
  std::sort(ordered_.begin(), ordered_.end(), std::greater<float>());
  float min_weight = 0;  // keeps all tokens if the first bin is empty
  for (const float weight : ordered_) {
    min_weight = weight;
    held += weight;
    if (++counted >= count || held >= mass) break;
  }
  return {min_weight, held};
}

double TruncatedDistribution::block_sum(std::size_t first) const {
  Floats sums = {};
  for (std::size_t i = first; i < first + kSumBlock; i += kLanes) sums += floats(&weights_[i]);
  return reduce_sum(sums);
}

double TruncatedDistribution::total() const {
  double total = 0;
  for (std::size_t first = 0; first < weights_.size(); first += kSumBlock) total += block_sum(first);
  return total;
}

int32_t TruncatedDistribution::select(float threshold, float number) {
  for (std::size_t i = 0; threshold > 0 && i < weights_.size(); i += kLanes) {
    const Floats weights = floats(&weights_[i]);
    store(&weights_[i], weights < threshold ? Floats{} : weights);
  }
  const double target = number * total();
  double reached = 0;
  std::size_t first = 0;
  for (; first + kSumBlock < weights_.size(); first += kSumBlock) {
    const double held = block_sum(first);
    if (reached + held > target) break;
    reached += held;
  }
  // The sum of a block's weights one by one may round to less than `block_sum`, and miss the target. The next token, or
  // the last one, is chosen then.
  int32_t last = -1;
  for (std::size_t i = first; i < weights_.size() && reached <= target; ++i) {
    if (weights_[i] == 0) continue;
    reached += weights_[i];
    last = static_cast<int32_t>(i);
  }
  return last;
}

}  // namespace dragoman

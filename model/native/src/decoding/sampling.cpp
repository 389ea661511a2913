#include "decoding/sampling.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "kernels/simd.h"

namespace dragoman {
namespace {

constexpr std::size_t kBlock = 128;  // weights that are added up before the next look at the sum
constexpr int32_t kAnyCount = std::numeric_limits<int32_t>::max();
constexpr double kAnyMass = std::numeric_limits<double>::infinity();

// Bins divide every octave below the weight 1 into 16: by exponent and first bits of the fraction.
constexpr int kBinShift = 19;
constexpr int32_t kBins = 32 * 16;  // all below the last octave are in the lightest bin

int32_t bin_of(float weight) {
  constexpr int32_t kOne = 0x3f800000 >> kBinShift;
  int32_t word;
  std::memcpy(&word, &weight, sizeof(word));
  return std::max(0, kBins - 1 - kOne + (word >> kBinShift));
}

}  // namespace

int32_t TruncatedDistribution::draw(const Scores& scores, const Options& options, float number) {
  if (options.top_k == 1) return scores.best();  // of equally likely ones the first, as greedy search
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
    const Floats distance = (floats(&weights_[i]) - largest) / temperature;
    const Floats weight = exponential_of_negative(distance);
    store(&weights_[i], distance < kLeastExponent ? Floats{} : weight);
  }
  return true;
}

// The weight that a token must have to stay.
float TruncatedDistribution::threshold(const Options& options) {
  float least = options.min_p;
  if (options.top_k == 0 && options.top_p >= 1) return least;
  fill_bins();
  double held = total();
  if (options.top_k > 0) {
    const Cut cut = heaviest(options.top_k, kAnyMass);
    least = std::max(least, cut.least);
    held = cut.mass;
  }
  if (options.top_p < 1) least = std::max(least, heaviest(kAnyCount, held * options.top_p).least);
  return least;
}

// Nothing needs to be put in order but the bin that a limit falls into, however flat the distribution.
void TruncatedDistribution::fill_bins() {
  bins_.assign(kBins, {0, 0.0});
  for (const float weight : weights_) {
    if (weight == 0) continue;
    Bin& bin = bins_[bin_of(weight)];
    ++bin.count;
    bin.mass += weight;
  }
}

// As few tokens as make up `count`, or weigh `mass` together; or all.
TruncatedDistribution::Cut TruncatedDistribution::heaviest(int32_t count, double mass) {
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
  float least = 0;  // all tokens, if the lightest bin is empty
  for (const float weight : ordered_) {
    least = weight;
    held += weight;
    if (++counted >= count || held >= mass) break;
  }
  return {least, held};
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
  // Added up one by one, a block's weights may miss a target that their sum has reached: the next token, or
  // the last, is as near.
  int32_t last = -1;
  for (std::size_t i = first; i < weights_.size() && reached <= target; ++i) {
    if (weights_[i] == 0) continue;
    reached += weights_[i];
    last = static_cast<int32_t>(i);
  }
  return last;
}

}  // namespace dragoman

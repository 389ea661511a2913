#include "decoding/token_scores.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/simd.h"

namespace dragoman {
namespace {

float max_of(const float* numbers, int32_t count) {
  float largest = kNever;
  int32_t i = 0;
  if (count >= kLanes) {
    Floats most = floats(numbers);
    for (i = kLanes; i + kLanes <= count; i += kLanes) most = maximum(floats(numbers + i), most);
    largest = reduce_max(most);
  }
  for (; i < count; ++i) largest = std::max(largest, numbers[i]);
  return largest;
}

// Σ exp(number - largest).
float sum_of_exponentials(const float* numbers, int32_t count, float largest) {
  constexpr int kSums = 4;  // independent sums hide the latency of additions
  Floats sums[kSums] = {};
  int32_t i = 0;
  for (; i + kSums * kLanes <= count; i += kSums * kLanes) {
    for (int s = 0; s < kSums; ++s) sums[s] += exp_of_negative(floats(numbers + i + s * kLanes) - largest);
  }
  for (; i + kLanes <= count; i += kLanes) sums[0] += exp_of_negative(floats(numbers + i) - largest);
  float rest = 0;
  for (; i < count; ++i) rest += std::exp(numbers[i] - largest);
  return reduce_sum((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

}  // namespace

void TokenScores::compute(float* logits, int32_t vocab_size, const Constraints& constraints,
                          const std::vector<int32_t>& history) {
  logits_ = logits;
  vocab_size_ = vocab_size;
  block_max_.resize((vocab_size + kBlock - 1) / kBlock);
  forbidden_.clear();
  originals_.clear();
  const int32_t prefix_token = constraints.prefix_token(history.size());
  if (prefix_token < 0) constraints.forbid(history, forbidden_);
  mask_forbidden();
  normalise();
  if (prefix_token >= 0) force(prefix_token, constraints.is_start(history.size()));
  if (prefix_token < 0 && constraints.repetition_penalty() != 1)
    penalise_repetition(history, constraints.repetition_penalty());
}

// Runs first, so that the maximum of a block covers only tokens that may be chosen.
void TokenScores::mask_forbidden() {
  masked_.clear();
  for (const int32_t token : forbidden_) {
    masked_.push_back(logits_[token]);
    logits_[token] = kNever;
  }
}

void TokenScores::normalise() {
  max_ = kNever;
  for (int32_t block = 0; block < num_blocks(); ++block) {
    update_block_max(block);
    max_ = std::max(max_, block_max_[block]);
  }
  for (const float logit : masked_) max_ = std::max(max_, logit);
  float sum = sum_of_exponentials(logits_, vocab_size_, max_);
  for (const float logit : masked_) sum += std::exp(logit - max_);
  log_sum_ = std::log(sum);
}

void TokenScores::force(int32_t token, bool is_certain) {
  const float logit = logits_[token];
  std::fill_n(logits_, vocab_size_, kNever);
  std::fill(block_max_.begin(), block_max_.end(), kNever);
  logits_[token] = block_max_[token / kBlock] = logit;
  if (is_certain && is_finite()) {  // log P = (logit - max) - log_sum = 0
    max_ = logit;
    log_sum_ = 0;
  }
}

// Log-probabilities are never positive, so that a factor above 1 lowers them whatever the sign of the logit.
void TokenScores::penalise_repetition(const std::vector<int32_t>& history, float penalty) {
  produced_.assign(history.begin(), history.end());
  std::sort(produced_.begin(), produced_.end());
  produced_.erase(std::unique(produced_.begin(), produced_.end()), produced_.end());
  for (const int32_t token : produced_) {
    if (logits_[token] == kNever) continue;
    originals_.push_back({token, logits_[token]});
    logits_[token] = (constrained_log_prob(token) * penalty + log_sum_) + max_;
    update_block_max(token / kBlock);
  }
}

void TokenScores::update_block_max(int32_t block) {
  const int32_t first = block * kBlock;
  block_max_[block] = max_of(logits_ + first, block_end(block) - first);
}

float TokenScores::log_prob(int32_t token) const {
  for (const Original& original : originals_) {
    if (original.token == token) return (original.logit - max_) - log_sum_;
  }
  return constrained_log_prob(token);
}

int32_t TokenScores::best() const {
  const auto block = std::max_element(block_max_.begin(), block_max_.end());
  if (*block == kNever) return -1;
  float* const first = logits_ + (block - block_max_.begin()) * kBlock;
  return static_cast<int32_t>(std::find(first, logits_ + vocab_size_, *block) - logits_);
}

float TokenScores::reached_by(std::size_t count) const {
  if (count > block_max_.size()) return kNever;
  std::vector<float> largest = block_max_;
  std::nth_element(largest.begin(), largest.begin() + (count - 1), largest.end(), std::greater<float>());
  return (largest[count - 1] - max_) - log_sum_;
}

float TokenScores::logit_bound(float log_prob) const {
  // The margin exceeds the rounding errors of `constrained_log_prob`.
  constexpr float kRoundings = 4 * std::numeric_limits<float>::epsilon();
  const float magnitude = std::fabs(log_prob) + std::fabs(log_sum_) + std::fabs(max_);
  return ((log_prob + log_sum_) + max_) - kRoundings * magnitude;
}

}  // namespace dragoman

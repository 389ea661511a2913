#include "decoding/token_scores.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/simd.h"

namespace dragoman {
namespace {

float largest_number(const float* numbers, int32_t count) {
  float largest = kNever;
  int32_t i = 0;
  if (count >= kLanes) {
    Floats most = floats(numbers);
    for (i = kLanes; i + kLanes <= count; i += kLanes) most = larger(floats(numbers + i), most);
    largest = maximum(most);
  }
  for (; i < count; ++i) largest = std::max(largest, numbers[i]);
  return largest;
}

// Of exp(number - largest).
float sum_of_exponentials(const float* numbers, int32_t count, float largest) {
  constexpr int kSums = 4;  // independent, so that additions need not wait for each other
  Floats sums[kSums] = {};
  int32_t i = 0;
  for (; i + kSums * kLanes <= count; i += kSums * kLanes) {
    for (int s = 0; s < kSums; ++s) sums[s] += exponential_of_negative(floats(numbers + i + s * kLanes) - largest);
  }
  for (; i + kLanes <= count; i += kLanes) sums[0] += exponential_of_negative(floats(numbers + i) - largest);
  float rest = 0;
  for (; i < count; ++i) rest += std::exp(numbers[i] - largest);
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
}

}  // namespace

void Scores::read(float* logits, int32_t vocab_size, const Constraints& constraints,
                  const std::vector<int32_t>& history) {
  logits_ = logits;
  vocab_size_ = vocab_size;
  block_largest_.resize((vocab_size + kBlock - 1) / kBlock);
  forbidden_.clear();
  originals_.clear();
  const int32_t given = constraints.given(history.size());
  if (given < 0) constraints.forbid(history, forbidden_);
  hide_forbidden();
  normalise();
  if (given >= 0) force(given);
  if (given < 0 && constraints.repetition_penalty() != 1) rescale(history, constraints.repetition_penalty());
}

// Before anything else: then the largest of every block is that of the tokens to choose from.
void Scores::hide_forbidden() {
  hidden_.clear();
  for (const int32_t token : forbidden_) {
    hidden_.push_back(logits_[token]);
    logits_[token] = kNever;
  }
}

void Scores::normalise() {
  largest_ = kNever;
  for (int32_t block = 0; block < num_blocks(); ++block) {
    find_largest_of(block);
    largest_ = std::max(largest_, block_largest_[block]);
  }
  for (const float logit : hidden_) largest_ = std::max(largest_, logit);
  float sum = sum_of_exponentials(logits_, vocab_size_, largest_);
  for (const float logit : hidden_) sum += std::exp(logit - largest_);
  log_sum_ = std::log(sum);
}

void Scores::force(int32_t token) {
  const float logit = logits_[token];
  std::fill_n(logits_, vocab_size_, kNever);
  std::fill(block_largest_.begin(), block_largest_.end(), kNever);
  logits_[token] = block_largest_[token / kBlock] = logit;
}

// A log-probability is never positive, so that one multiplication makes it smaller whatever its logit's sign.
void Scores::rescale(const std::vector<int32_t>& history, float penalty) {
  produced_.assign(history.begin(), history.end());
  std::sort(produced_.begin(), produced_.end());
  produced_.erase(std::unique(produced_.begin(), produced_.end()), produced_.end());
  for (const int32_t token : produced_) {
    if (logits_[token] == kNever) continue;
    originals_.push_back({token, logits_[token]});
    logits_[token] = (ranking(token) * penalty + log_sum_) + largest_;
    find_largest_of(token / kBlock);
  }
}

void Scores::find_largest_of(int32_t block) {
  const int32_t first = block * kBlock;
  block_largest_[block] = largest_number(logits_ + first, end_of_block(block) - first);
}

int32_t Scores::end_of_block(int32_t block) const { return std::min((block + 1) * kBlock, vocab_size_); }

float Scores::log_prob(int32_t token) const {
  for (const Original& original : originals_) {
    if (original.token == token) return (original.logit - largest_) - log_sum_;
  }
  return ranking(token);
}

int32_t Scores::best() const {
  const auto block = std::max_element(block_largest_.begin(), block_largest_.end());
  if (*block == kNever) return -1;
  float* const first = logits_ + (block - block_largest_.begin()) * kBlock;
  return static_cast<int32_t>(std::find(first, logits_ + vocab_size_, *block) - logits_);
}

float Scores::reached_by(std::size_t count) const {
  if (count > block_largest_.size()) return kNever;
  std::vector<float> largest = block_largest_;
  std::nth_element(largest.begin(), largest.begin() + (count - 1), largest.end(), std::greater<float>());
  return (largest[count - 1] - largest_) - log_sum_;
}

float Scores::below(float ranking) const {
  // Several roundings lie between a logit and its ranking: the bound stays below by more than they can be.
  constexpr float kRoundings = 4 * std::numeric_limits<float>::epsilon();
  const float magnitude = std::fabs(ranking) + std::fabs(log_sum_) + std::fabs(largest_);
  return ((ranking + log_sum_) + largest_) - kRoundings * magnitude;
}

}  // namespace dragoman

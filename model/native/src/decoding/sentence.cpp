#include "decoding/sentence.h"

#include <algorithm>

namespace dragoman {
namespace {

// Sentences allocate slots in turn, but the slots that one sentence reads in a step should be neighbours in memory.
constexpr int64_t kSlotsAtOnce = 64;

std::unique_ptr<Search> make_restricted_search(const Shortlist& shortlist, Request request,
                                               const Vocabulary& vocabulary) {
  const std::vector<int32_t> prefix = shortlist.indices(request.prefix_ids, request.prefix_length);
  const std::vector<int32_t> suppressed = shortlist.indices(request.suppress_ids, request.num_suppressed);
  const std::vector<int32_t> phrases = shortlist.indices(request.phrase_ids, request.num_phrase_ids);
  std::vector<uint8_t> word_parts;
  if (request.word_parts != nullptr && !shortlist.is_whole()) {
    for (const int32_t token : shortlist.tokens()) word_parts.push_back(request.word_parts[token]);
    request.word_parts = word_parts.data();
  }
  request.phrase_ids = phrases.data();
  request.prefix_ids = prefix.data();
  request.prefix_length = static_cast<int32_t>(prefix.size());
  request.suppress_ids = suppressed.data();
  request.num_suppressed = static_cast<int32_t>(suppressed.size());
  return make_search(request, vocabulary);
}

}  // namespace

Sentence::Sentence(const Request& request, const Vocabulary& vocabulary, KvPool& pool, ShortlistProjection& projection)
    : handle_(request.handle),
      source_length_(request.source_length),
      start_id_(vocabulary.start_id),
      projection_(projection),
      shortlist_(request),
      vocabulary_(shortlist_.restrict(vocabulary)),
      search_(make_restricted_search(shortlist_, request, vocabulary_)),
      slots_(pool, max_slots()) {
  for (int32_t i = 0; i < source_length_; ++i) take_slot();
  if (!shortlist_.is_whole()) is_projected_ = projection.acquire(shortlist_.tokens());
}

Sentence::~Sentence() {
  if (is_projected_) projection_.release(shortlist_.tokens());
}

int32_t Sentence::take_slot() {
  if (num_used_slots_ == slots_.size()) {
    const int64_t left = max_slots() - static_cast<int64_t>(num_used_slots_);
    for (int64_t i = std::min<int64_t>(left, kSlotsAtOnce); i > 0; --i) slots_.allocate();
  }
  return slots_[num_used_slots_++];
}

void Sentence::add_rows(std::vector<Row>& rows) {
  const std::size_t num_live = search_->num_live();
  if (search_->needs_attention()) {
    if (!returns_alignment()) attention_.clear();
    first_attention_row_ = static_cast<int32_t>(attention_.size() / source_length_);
    attention_.resize(attention_.size() + num_live * source_length_);
  }
  for (std::size_t i = 0; i < num_live; ++i) {
    Hypothesis& hypothesis = search_->hypothesis(i);
    hypothesis.block_table.push_back(take_slot());
    const int32_t last = position_ == 0 ? start_id_ : shortlist_.token(hypothesis.tokens.back());
    rows.push_back({last, position_, hypothesis.block_table.data(), slots_.data(), source_length_, attention_row(i)});
  }
}

float* Sentence::attention_row(std::size_t index) {
  return search_->needs_attention() ? &attention_[(first_attention_row_ + index) * source_length_] : nullptr;
}

void Sentence::advance(Logits& logits, TokenScores& scores) {
  const std::size_t num_rows = search_->num_live();
  float* const own = shortlist_.is_whole() ? logits.row : shortlisted_logits(logits);
  logits.row += num_rows * logits.stride;
  const bool is_finite = search_->advance({own, attention_row(0), first_attention_row_, &scores});
  ++position_;
  if (!is_finite) {
    status_ = Status::not_a_number;
  } else if (search_->is_done() || position_ == search_->options().max_length) {
    status_ = search_->results().empty() ? Status::nothing_allowed : Status::done;
  }
}

float* Sentence::shortlisted_logits(const Logits& logits) {
  logits_.resize(search_->num_live() * shortlist_.tokens().size());
  float* to = logits_.data();
  for (std::size_t row = 0; row < search_->num_live(); ++row) {
    const float* from = logits.row + row * logits.stride;
    for (const int32_t token : shortlist_.tokens()) *to++ = from[logits.index_map ? logits.index_map[token] : token];
  }
  return logits_.data();
}

std::vector<FinalHypothesis> Sentence::results() const {
  std::vector<FinalHypothesis> results = search_->results();
  for (FinalHypothesis& hypothesis : results) to_tokens(hypothesis.tokens);
  return results;
}

std::vector<int32_t> Sentence::stable_prefix() const {
  std::vector<int32_t> tokens = search_->stable_prefix();
  to_tokens(tokens);
  return tokens;
}

// Replaces indices in the shortlist by tokens.
void Sentence::to_tokens(std::vector<int32_t>& indices) const {
  for (int32_t& index : indices) index = shortlist_.token(index);
}

std::vector<float> Sentence::alignment(const FinalHypothesis& hypothesis) const {
  std::vector<float> weights;
  weights.reserve(hypothesis.attention_rows.size() * source_length_);
  for (const int32_t index : hypothesis.attention_rows) {
    const auto row = attention_.begin() + int64_t{index} * source_length_;
    weights.insert(weights.end(), row, row + source_length_);
  }
  return weights;
}

}  // namespace dragoman

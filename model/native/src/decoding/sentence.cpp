#include "decoding/sentence.h"

#include <algorithm>

namespace dragoman {

namespace {

// Sentences take turns at taking entries; what one of them reads in a step should lie together all the same.
constexpr int64_t kEntriesAtOnce = 64;

std::unique_ptr<Search> make_search_within(const Shortlist& shortlist, Request request, const Vocabulary& vocabulary) {
  const std::vector<int32_t> prefix = shortlist.places(request.prefix_ids, request.prefix_length);
  const std::vector<int32_t> suppressed = shortlist.places(request.suppress_ids, request.num_suppressed);
  request.prefix_ids = prefix.data();
  request.prefix_length = static_cast<int32_t>(prefix.size());
  request.suppress_ids = suppressed.data();
  request.num_suppressed = static_cast<int32_t>(suppressed.size());
  return make_search(request, vocabulary);
}

}  // namespace

Sentence::Sentence(const Request& request, const Vocabulary& vocabulary, State& state, Selection& selection)
    : handle_(request.handle),
      source_length_(request.source_length),
      start_id_(vocabulary.start_id),
      selection_(selection),
      shortlist_(request),
      vocabulary_(shortlist_.within(vocabulary)),
      search_(make_search_within(shortlist_, request, vocabulary_)),
      entries_(state, num_entries()) {
  for (int32_t i = 0; i < source_length_; ++i) take_entry();
  if (!shortlist_.is_whole()) is_selected_ = selection.add(shortlist_.tokens());
}

Sentence::~Sentence() {
  if (is_selected_) selection_.remove(shortlist_.tokens());
}

int32_t Sentence::take_entry() {
  if (num_used_ == entries_.size()) {
    const int64_t left = num_entries() - static_cast<int64_t>(num_used_);
    for (int64_t i = std::min<int64_t>(left, kEntriesAtOnce); i > 0; --i) entries_.take();
  }
  return entries_[num_used_++];
}

void Sentence::add_rows(std::vector<Row>& rows) {
  const std::size_t num_live = search_->num_live();
  if (search_->needs_attention()) {
    if (!search_->options().return_alignment) attention_.clear();
    first_look_ = static_cast<int32_t>(attention_.size() / source_length_);
    attention_.resize(attention_.size() + num_live * source_length_);
  }
  for (std::size_t place = 0; place < num_live; ++place) {
    Lane& lane = search_->lane(place);
    lane.past.push_back(take_entry());
    const int32_t last = position_ == 0 ? start_id_ : shortlist_.token(lane.tokens.back());
    rows.push_back({last, position_, lane.past.data(), entries_.data(), source_length_, attention_of(place)});
  }
}

float* Sentence::attention_of(std::size_t place) {
  return search_->needs_attention() ? &attention_[(first_look_ + place) * source_length_] : nullptr;
}

void Sentence::advance(Logits& logits, Scores& scores) {
  const std::size_t num_rows = search_->num_live();
  float* const own = shortlist_.is_whole() ? logits.row : own_logits(logits);
  logits.row += num_rows * logits.stride;
  const bool is_number = search_->advance({own, attention_of(0), first_look_, &scores});
  ++position_;
  if (!is_number) {
    status_ = Status::not_a_number;
  } else if (search_->is_settled() || position_ == search_->options().longest) {
    status_ = search_->results().empty() ? Status::nothing_allowed : Status::done;
  }
}

float* Sentence::own_logits(const Logits& logits) {
  logits_.resize(search_->num_live() * shortlist_.tokens().size());
  float* own = logits_.data();
  for (std::size_t row = 0; row < search_->num_live(); ++row) {
    const float* from = logits.row + row * logits.stride;
    for (const int32_t token : shortlist_.tokens()) *own++ = from[logits.places ? logits.places[token] : token];
  }
  return logits_.data();
}

std::vector<Hypothesis> Sentence::results() const {
  std::vector<Hypothesis> results = search_->results();
  for (Hypothesis& hypothesis : results) name_tokens(hypothesis.tokens);
  return results;
}

std::vector<int32_t> Sentence::agreed() const {
  std::vector<int32_t> agreed = search_->agreed();
  name_tokens(agreed);
  return agreed;
}

void Sentence::name_tokens(std::vector<int32_t>& places) const {
  for (int32_t& place : places) place = shortlist_.token(place);
}

std::vector<float> Sentence::alignment(const Hypothesis& hypothesis) const {
  std::vector<float> weights;
  weights.reserve(hypothesis.looks.size() * source_length_);
  for (const int32_t look : hypothesis.looks) {
    const auto row = attention_.begin() + int64_t{look} * source_length_;
    weights.insert(weights.end(), row, row + source_length_);
  }
  return weights;
}

}  // namespace dragoman

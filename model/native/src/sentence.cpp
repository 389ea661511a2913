#include "sentence.h"

namespace dragoman {

Sentence::Sentence(const Request& request, const Vocabulary& vocabulary, State& state)
    : handle_(request.handle),
      source_length_(request.source_length),
      start_id_(vocabulary.start_id),
      vocab_size_(vocabulary.size),
      state_(state),
      search_(make_search(request, vocabulary)) {
  entries_.reserve(num_entries());
  for (int32_t i = 0; i < source_length_; ++i) take_entry();
}

Sentence::~Sentence() {
  for (const int32_t entry : entries_) state_.give_back(entry);
}

int32_t Sentence::take_entry() {
  entries_.push_back(state_.take());
  return entries_.back();
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
    const int32_t last = position_ == 0 ? start_id_ : lane.tokens.back();
    rows.push_back({last, position_, lane.past.data(), entries_.data(), source_length_, attention_of(place)});
  }
}

float* Sentence::attention_of(std::size_t place) {
  return search_->needs_attention() ? &attention_[(first_look_ + place) * source_length_] : nullptr;
}

float* Sentence::advance(float* logits, Scores& scores) {
  float* const end = logits + search_->num_live() * vocab_size_;
  const bool is_number = search_->advance({logits, attention_of(0), first_look_, &scores});
  ++position_;
  if (!is_number) {
    status_ = Status::not_a_number;
  } else if (search_->is_settled() || position_ == search_->options().longest) {
    status_ = search_->results().empty() ? Status::nothing_allowed : Status::done;
  }
  return end;
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

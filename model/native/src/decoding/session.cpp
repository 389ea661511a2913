#include "decoding/session.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "decoding/validate.h"

namespace dragoman {

Session::Session(const Network& network, Vocabulary vocabulary, int32_t max_rows, int32_t max_entries)
    : network_(network),
      vocabulary_(std::move(vocabulary)),
      max_rows_(max_rows),
      state_(network.state_layout(), max_entries),
      selection_(network.output()),
      scratch_(make_scratch()) {}

void Session::admit(const Request* requests, int32_t count) {
  std::vector<std::unique_ptr<Sentence>> joining;
  std::vector<Source> sources;
  for (int32_t i = 0; i < count; ++i) {
    require_sound(requests[i], network_.config());
    joining.push_back(std::make_unique<Sentence>(requests[i], vocabulary_, state_, selection_));
    sources.push_back(joining.back()->source(requests[i].source_ids));
  }
  require_room(joining);
  live_.reserve(live_.size() + count);  // before anything is done that would have to be undone
  network_.encode(sources.data(), count, state_, *scratch_);
  std::move(joining.begin(), joining.end(), std::back_inserter(live_));
}

// By what they may come to occupy: a step never runs out of room.
void Session::require_room(const std::vector<std::unique_ptr<Sentence>>& joining) const {
  int64_t rows = 0, entries = 0;
  for (const auto* sentences : {&live_, &joining}) {
    for (const auto& sentence : *sentences) {
      rows += sentence->num_rows();
      entries += sentence->num_entries();
    }
  }
  if (rows > max_rows_) throw std::length_error("more hypotheses than the session has rows for");
  if (entries > state_.capacity()) throw std::length_error("more positions than the decoder state has entries");
}

Progress Session::run(int32_t max_steps, const int32_t* interrupt) {
  steps_.clear();
  started_.clear();
  results_.clear();
  while (!live_.empty() && results_.empty() && static_cast<int32_t>(steps_.size()) < max_steps) {
    step();
    if (__atomic_load_n(interrupt, __ATOMIC_RELAXED) != 0) break;
  }
  views_.clear();
  for (const Result& result : results_) {
    const auto count = static_cast<int32_t>(result.views.size());
    views_.push_back({result.handle, result.views.data(), count, result.status});
  }
  return {steps_.data(),
          started_.data(),
          views_.data(),
          static_cast<int32_t>(steps_.size()),
          static_cast<int32_t>(started_.size()),
          static_cast<int32_t>(views_.size())};
}

void Session::step() {
  const auto start = std::chrono::steady_clock::now();
  rows_.clear();
  for (const auto& sentence : live_) {
    if (!sentence->has_started()) started_.push_back(sentence->handle());
    sentence->add_rows(rows_);
  }
  const auto num_rows = static_cast<int32_t>(rows_.size()), num_sentences = static_cast<int32_t>(live_.size());
  const auto is_selected = [](const auto& sentence) { return sentence->is_selected(); };
  const bool is_narrow = std::all_of(live_.begin(), live_.end(), is_selected);
  const Matrix& output = is_narrow ? selection_.matrix() : network_.output();
  logits_.resize(num_rows * output.outputs());
  network_.step(rows_.data(), num_rows, state_, *scratch_, output, logits_.data());
  Logits logits{logits_.data(), output.outputs(), is_narrow ? selection_.places() : nullptr};
  for (const auto& sentence : live_) {
    sentence->advance(logits, scores_);
    if (sentence->status() != Status::running) hand_over(*sentence);
  }
  const auto has_finished = [](const auto& sentence) { return sentence->status() != Status::running; };
  live_.erase(std::remove_if(live_.begin(), live_.end(), has_finished), live_.end());
  const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - start;
  steps_.push_back({duration.count(), num_rows, num_sentences});
}

void Session::hand_over(const Sentence& sentence) {
  results_.push_back({sentence.handle(), sentence.status(), {}, {}, {}});
  if (sentence.status() != Status::done) return;
  Result& result = results_.back();
  result.hypotheses = sentence.results();
  for (const Hypothesis& hypothesis : result.hypotheses) {
    result.alignments.push_back(sentence.alignment(hypothesis));
    const bool is_aligned = sentence.search().options().return_alignment;
    result.views.push_back({hypothesis.tokens.data(), hypothesis.log_probs.data(),
                            is_aligned ? result.alignments.back().data() : nullptr,
                            static_cast<int32_t>(hypothesis.tokens.size()), hypothesis.has_eos, hypothesis.score});
  }
}

void Session::drop(int64_t handle) {
  const auto is_meant = [handle](const auto& sentence) { return sentence->handle() == handle; };
  live_.erase(std::remove_if(live_.begin(), live_.end(), is_meant), live_.end());
}

std::vector<int32_t> Session::agreed(int64_t handle) const {
  for (const auto& sentence : live_) {
    if (sentence->handle() == handle) return sentence->agreed();
  }
  throw std::invalid_argument("no such sentence runs");
}

}  // namespace dragoman

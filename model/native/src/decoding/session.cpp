#include "decoding/session.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stdexcept>

namespace dragoman {

Session::Session(const Network& network, const SessionConfig& config)
    : network_(network),
      vocabulary_{network.config().target_vocab_size,
                  config.start_id,
                  config.eos_id,
                  {config.never_produced, config.never_produced + config.num_never_produced}},
      max_rows_(config.max_rows),
      pool_(network.kv_layout(), config.max_slots),
      projection_(network.output()) {
  validate(vocabulary_);
}

void Session::admit(const Request* requests, int32_t count) {
  std::vector<std::unique_ptr<Sentence>> joining;
  std::vector<Source> sources;
  for (int32_t i = 0; i < count; ++i) {
    validate(requests[i], network_.config());
    joining.push_back(std::make_unique<Sentence>(requests[i], vocabulary_, pool_, projection_));
    sources.push_back(joining.back()->source(requests[i].source_ids));
  }
  require_capacity(joining);
  live_.reserve(live_.size() + count);  // before the encoder runs, because this may throw
  network_.encode(sources.data(), count, pool_, scratch_);
  std::move(joining.begin(), joining.end(), std::back_inserter(live_));
}

// Counts the rows and slots that the sentences may need at most, so that no step runs out of them.
void Session::require_capacity(const std::vector<std::unique_ptr<Sentence>>& joining) const {
  int64_t rows = 0, slots = 0;
  for (const auto* sentences : {&live_, &joining}) {
    for (const auto& sentence : *sentences) {
      rows += sentence->max_rows();
      slots += sentence->max_slots();
    }
  }
  if (rows > max_rows_) throw std::length_error("the sentences need more rows than the session has");
  if (slots > pool_.capacity()) throw std::length_error("the sentences need more KV slots than the session has");
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
  const auto size = [](const auto& list) { return static_cast<int32_t>(list.size()); };
  return {steps_.data(), started_.data(), views_.data(), size(steps_), size(started_), size(views_)};
}

void Session::step() {
  const auto start = std::chrono::steady_clock::now();
  rows_.clear();
  for (const auto& sentence : live_) {
    if (!sentence->has_started()) started_.push_back(sentence->handle());
    sentence->add_rows(rows_);
  }
  const auto num_rows = static_cast<int32_t>(rows_.size()), num_sentences = static_cast<int32_t>(live_.size());
  const auto is_projected = [](const auto& sentence) { return sentence->is_projected(); };
  const bool all_projected = std::all_of(live_.begin(), live_.end(), is_projected);
  const Matrix& output = all_projected ? projection_.matrix() : network_.output();
  logits_.resize(num_rows * output.outputs());
  network_.step(rows_.data(), num_rows, pool_, scratch_, output, logits_.data());
  Logits logits{logits_.data(), output.outputs(), all_projected ? projection_.index_map() : nullptr};
  for (const auto& sentence : live_) {
    sentence->advance(logits, scores_);
    if (sentence->status() != Status::running) finish(*sentence);
  }
  const auto has_finished = [](const auto& sentence) { return sentence->status() != Status::running; };
  live_.erase(std::remove_if(live_.begin(), live_.end(), has_finished), live_.end());
  const std::chrono::duration<double> duration = std::chrono::steady_clock::now() - start;
  steps_.push_back({duration.count(), num_rows, num_sentences});
}

void Session::finish(const Sentence& sentence) {
  results_.push_back({sentence.handle(), sentence.status(), {}, {}, {}});
  if (sentence.status() != Status::done) return;
  Result& result = results_.back();
  result.hypotheses = sentence.results();
  for (const FinalHypothesis& hypothesis : result.hypotheses) {
    result.alignments.push_back(sentence.alignment(hypothesis));
    result.views.push_back({hypothesis.tokens.data(), hypothesis.log_probs.data(),
                            sentence.returns_alignment() ? result.alignments.back().data() : nullptr,
                            static_cast<int32_t>(hypothesis.tokens.size()), hypothesis.has_eos, hypothesis.score});
  }
}

void Session::drop(int64_t handle) {
  const auto matches = [handle](const auto& sentence) { return sentence->handle() == handle; };
  live_.erase(std::remove_if(live_.begin(), live_.end(), matches), live_.end());
}

std::vector<int32_t> Session::stable_prefix(int64_t handle) const {
  for (const auto& sentence : live_) {
    if (sentence->handle() == handle) return sentence->stable_prefix();
  }
  throw std::invalid_argument("no running sentence has this handle");
}

}  // namespace dragoman

// A running batch: sentences join between two steps, and leave in the step that finishes them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decoding/sentence.h"
#include "decoding/shortlist_projection.h"
#include "decoding/token_scores.h"
#include "network/network.h"

namespace dragoman {

// What a session reports, as plain C, read by ctypes; it lies in the session until its next `run`.

struct StepRecord {
  double seconds;
  int32_t rows;
  int32_t sentences;
};

struct HypothesisView {
  const int32_t* tokens;   // num_tokens, without EOS
  const float* log_probs;  // num_tokens, and one more if has_eos
  const float* alignment;  // num_tokens × source length; null unless asked for
  int32_t num_tokens;
  int32_t has_eos;
  float score;
};

struct ResultView {
  int64_t handle;
  const HypothesisView* hypotheses;  // best first
  int32_t num_hypotheses;
  Status status;
};

struct Progress {
  const StepRecord* steps;
  const int64_t* started;  // handles of sentences that got their first token
  const ResultView* results;
  int32_t num_steps;
  int32_t num_started;
  int32_t num_results;
};

// Not thread-safe; several sessions, each on a thread of its own, may share one network.
class Session {
 public:
  Session(const Network& network, Vocabulary vocabulary, int32_t max_rows, int32_t max_entries);

  // Encodes sentences as one batch. Throws std::length_error if they do not fit, std::invalid_argument if one is
  // not sound; none has joined then.
  void admit(const Request* requests, int32_t count);

  // At least one step, unless nothing runs; more until a sentence has finished, or the interrupt is not 0,
  // or max_steps are done.
  Progress run(int32_t max_steps, const int32_t* interrupt);

  // Forgets a sentence, if it is there.
  void drop(int64_t handle);

  // The tokens that the best result of a running sentence is sure to begin with. Throws std::invalid_argument.
  std::vector<int32_t> agreed(int64_t handle) const;

  int32_t num_free_entries() const { return state_.num_free(); }

 private:
  // A finished sentence's results, and what the views point to.
  struct Result {
    int64_t handle;
    Status status;
    std::vector<Hypothesis> hypotheses;
    std::vector<std::vector<float>> alignments;
    std::vector<HypothesisView> views;
  };

  void step();
  void hand_over(const Sentence& sentence);
  void require_room(const std::vector<std::unique_ptr<Sentence>>& joining) const;

  const Network& network_;
  const Vocabulary vocabulary_;
  const int32_t max_rows_;
  State state_;
  Selection selection_;
  std::vector<std::unique_ptr<Sentence>> live_;  // in the order of their rows
  std::unique_ptr<Scratch, void (*)(Scratch*)> scratch_;
  Scores scores_;
  std::vector<Row> rows_;
  Buffer<float> logits_;

  std::vector<StepRecord> steps_;
  std::vector<int64_t> started_;
  std::vector<Result> results_;
  std::vector<ResultView> views_;
};

}  // namespace dragoman

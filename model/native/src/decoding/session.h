// A running batch. Sentences join between two steps and leave in the step that finishes them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decoding/sentence.h"
#include "decoding/shortlist.h"
#include "decoding/token_scores.h"
#include "network/network.h"

namespace dragoman {

struct SessionConfig {
  int32_t max_rows;
  int32_t max_slots;
  int32_t start_id;
  int32_t eos_id;
  const int32_t* never_produced;
  int32_t num_never_produced;
};

// The report of a session, as plain C that ctypes reads. The session overwrites it in the next `run`.

struct StepRecord {
  double seconds;
  int32_t rows;
  int32_t sentences;
};

struct HypothesisView {
  const int32_t* tokens;   // num_tokens, without EOS
  const float* log_probs;  // num_tokens, and one more if has_eos
  const float* alignment;  // num_tokens × source length; null unless requested
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
  const int64_t* started;  // handles of the sentences that took their first step
  const ResultView* results;
  int32_t num_steps;
  int32_t num_started;
  int32_t num_results;
};

// A session is not thread-safe. Several sessions, each on its own thread, may share a network.
class Session {
 public:
  // Throws std::invalid_argument if an id is not one of the vocabulary.
  Session(const Network& network, const SessionConfig& config);

  // Encodes sentences as one batch. Throws std::length_error if they do not fit, and std::invalid_argument if a request
  // is invalid. No sentence has joined then.
  void admit(const Request* requests, int32_t count);

  // Takes steps until a sentence has finished, the interrupt is not 0 or `max_steps` are done; at least one, unless the
  // batch is empty.
  Progress run(int32_t max_steps, const int32_t* interrupt);

  // Removes a sentence, if it is running.
  void drop(int64_t handle);

  // The tokens that the best result of a running sentence will certainly begin with. Throws std::invalid_argument.
  std::vector<int32_t> stable_prefix(int64_t handle) const;

  int32_t num_free_slots() const { return pool_.num_free(); }

 private:
  // The results of a finished sentence, which own the memory of the views.
  struct Result {
    int64_t handle;
    Status status;
    std::vector<FinalHypothesis> hypotheses;
    std::vector<std::vector<float>> alignments;
    std::vector<HypothesisView> views;
  };

  void step();
  void finish(const Sentence& sentence);
  void require_capacity(const std::vector<std::unique_ptr<Sentence>>& joining) const;

  const Network& network_;
  const Vocabulary vocabulary_;
  const int32_t max_rows_;
  KvPool pool_;
  ShortlistProjection projection_;
  std::vector<std::unique_ptr<Sentence>> live_;  // in the order of their rows
  Scratch scratch_;
  TokenScores scores_;
  std::vector<Row> rows_;
  Buffer<float> logits_;

  std::vector<StepRecord> steps_;
  std::vector<int64_t> started_;
  std::vector<Result> results_;
  std::vector<ResultView> views_;
};

}  // namespace dragoman

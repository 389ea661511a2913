// What a caller asks of one sentence: the fields of model/request.py, worked out. Plain C, filled in by ctypes.
#pragma once

#include <cstdint>

namespace dragoman {

enum class Strategy : int32_t { greedy = 0, beam = 1, sample = 2 };
enum class Stop : int32_t { patience = 0, first = 1, all = 2 };
enum class LengthPenaltyForm : int32_t { power = 0, gnmt = 1 };

struct Options {
  Strategy strategy;
  int32_t lanes;           // hypotheses alive at once: beams, or draws
  int32_t num_hypotheses;  // to return at most
  int32_t shortest;        // target tokens, EOS included
  int32_t longest;
  LengthPenaltyForm length_penalty_form;
  float length_penalty;
  float coverage_penalty;
  Stop stop;
  float patience;
  float temperature;
  int32_t top_k;
  float top_p;
  float min_p;
  int32_t no_repeat_ngram_size;
  float repetition_penalty;
  int32_t return_alignment;  // 0 or 1
  uint64_t seed;
};

struct Request {
  int64_t handle;  // what the caller calls the sentence
  const int32_t* source_ids;
  const int32_t* prefix_ids;
  const int32_t* suppress_ids;
  const int32_t* candidate_ids;  // all that it may produce, ascending, EOS and the prefix included
  int32_t source_length;
  int32_t prefix_length;
  int32_t num_suppressed;
  int32_t num_candidates;  // 0: the whole vocabulary
  Options options;
};

}  // namespace dragoman

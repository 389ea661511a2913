// A request for one sentence, as plain C that ctypes fills in from model/decode_request.py, and its validation.
#pragma once

#include <cstdint>
#include <vector>

#include "network/config.h"

namespace dragoman {

enum class Strategy : int32_t { greedy = 0, beam = 1, sample = 2 };
enum class Stop : int32_t { patience = 0, first = 1, all = 2, count = 3, pool = 4 };
enum class LengthPenaltyForm : int32_t { power = 0, gnmt = 1 };

struct Options {
  Strategy strategy;
  int32_t max_rows;        // hypotheses that a step extends: the beam size, or the number of samples
  int32_t num_hypotheses;  // most hypotheses to return
  int32_t min_length;      // in target tokens, EOS included
  int32_t max_length;
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

// A spelling of a required phrase. The tokens of all spellings stand in `phrase_ids`, one after the other.
struct Spelling {
  int32_t length;
  int32_t phrase;  // the spellings of a phrase follow each other; the first phrase is 0
};

struct Request {
  int64_t handle;  // identifies the sentence to the caller
  const int32_t* source_ids;
  const int32_t* prefix_ids;
  const int32_t* suppress_ids;
  const int32_t* shortlist_ids;  // the tokens that it may produce, ascending, with EOS, the prefix and the phrases
  const int32_t* phrase_ids;
  const Spelling* spellings;
  const uint8_t* word_parts;  // for each token, whether it continues a word; null: none does
  int32_t source_length;
  int32_t prefix_length;
  int32_t num_suppressed;
  int32_t num_shortlisted;  // 0: the whole vocabulary
  int32_t num_phrase_ids;
  int32_t num_spellings;
  int32_t num_start;  // tokens at the beginning of the prefix whose log-probability counts as 0
  Options options;
};

// What all sentences of a session have in common.
struct Vocabulary {
  int32_t size;
  int32_t start_id;  // the decoder's first input
  int32_t eos_id;
  std::vector<int32_t> never_produced;  // without EOS
};

// Both throw std::invalid_argument, which names the wrong value. All other code trusts lengths and ids.
void validate(const Vocabulary& vocabulary);
void validate(const Request& request, const NetworkConfig& config);

}  // namespace dragoman

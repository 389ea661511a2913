// A sentence of a running batch: its search, its KV slots and its attention record.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decoding/search.h"
#include "decoding/shortlist.h"
#include "network/network.h"

namespace dragoman {

enum class Status : int32_t { running = 0, done = 1, not_a_number = 2, nothing_allowed = 3 };

// The logits of a step: one row for each row of the batch.
struct Logits {
  float* row;  // the first row of the next sentence
  int64_t stride;
  const int32_t* index_map;  // from a token to its index in a row; null: the identity
};

class Sentence {
 public:
  Sentence(const Request& request, const Vocabulary& vocabulary, KvPool& pool, ShortlistProjection& projection);
  Sentence(const Sentence&) = delete;
  Sentence& operator=(const Sentence&) = delete;
  ~Sentence();

  int64_t handle() const { return handle_; }
  Status status() const { return status_; }
  int32_t max_rows() const { return search_->options().max_rows; }
  // The KV slots that the sentence may need until it is done.
  int64_t max_slots() const { return source_length_ + int64_t{max_rows()} * search_->options().max_length; }
  bool has_started() const { return position_ > 0; }
  bool returns_alignment() const { return search_->options().return_alignment != 0; }
  // Whether the projection contains all tokens that the sentence may produce.
  bool is_projected() const { return is_projected_; }

  // The input of the encoder: these ids, and the slots for their keys and values.
  Source source(const int32_t* ids) const { return {ids, source_length_, slots_.data()}; }

  // Appends the rows of the next step.
  void add_rows(std::vector<Row>& rows);

  // Extends the hypotheses by the logits of these rows, and moves `logits` on to the rows of the next sentence.
  void advance(Logits& logits, TokenScores& scores);

  // The results, best first.
  std::vector<FinalHypothesis> results() const;

  // The tokens that the best result will certainly begin with.
  std::vector<int32_t> stable_prefix() const;

  // The attention to the source tokens for each token of a hypothesis, as [tokens][source_length].
  std::vector<float> alignment(const FinalHypothesis& hypothesis) const;

 private:
  int32_t take_slot();
  float* attention_row(std::size_t index);
  float* shortlisted_logits(const Logits& logits);
  void to_tokens(std::vector<int32_t>& indices) const;

  const int64_t handle_;
  const int32_t source_length_;
  const int32_t start_id_;
  ShortlistProjection& projection_;
  const Shortlist shortlist_;
  const Vocabulary vocabulary_;  // restricted to the shortlist
  std::unique_ptr<Search> search_;
  // The slots of the source, then those of hypotheses. Slots of dropped hypotheses stay allocated until the end.
  KvReservation slots_;
  std::size_t num_used_slots_ = 0;
  bool is_projected_ = false;
  std::vector<float> logits_;     // one row for each hypothesis, restricted to the shortlist
  std::vector<float> attention_;  // the attention record: one row for each row of each step, or of the last step only
  int32_t first_attention_row_ = 0;  // index of the last step's first row in the record
  int32_t position_ = 0;             // number of tokens of every live hypothesis
  Status status_ = Status::running;
};

}  // namespace dragoman

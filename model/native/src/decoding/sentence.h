// One sentence of a running batch: its search, and its part of the decoder state.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "decoding/search.h"
#include "decoding/shortlist.h"
#include "decoding/shortlist_projection.h"
#include "network/kv_pool.h"
#include "network/network.h"

namespace dragoman {

enum class Status : int32_t { running = 0, done = 1, not_a_number = 2, nothing_allowed = 3 };

// What a decoder step offers to all sentences: a row of logits for each row they added.
struct Logits {
  float* row;  // the next sentence's first
  int64_t stride;
  const int32_t* places;  // of each token's logit in a row; null: at the token
};

class Sentence {
 public:
  Sentence(const Request& request, const Vocabulary& vocabulary, State& state, Selection& selection);
  Sentence(const Sentence&) = delete;
  Sentence& operator=(const Sentence&) = delete;
  ~Sentence();

  int64_t handle() const { return handle_; }
  const Search& search() const { return *search_; }
  Status status() const { return status_; }
  int32_t num_rows() const { return search_->options().lanes; }
  // Entries of the state that it may come to occupy.
  int64_t num_entries() const { return source_length_ + int64_t{num_rows()} * search_->options().longest; }
  int32_t source_length() const { return source_length_; }
  bool has_started() const { return position_ > 0; }

  // Its place in the state, where the encoder leaves what decoding needs of these ids.
  Source source(const int32_t* ids) const { return {ids, source_length_, entries_.data()}; }

  // Adds the rows of the next step.
  void add_rows(std::vector<Row>& rows);

  // Whether the selection has all that it may produce.
  bool is_selected() const { return is_selected_; }

  // Chooses by the logits of those rows, and moves on to where the next sentence's begin.
  void advance(Logits& logits, Scores& scores);

  // Best first.
  std::vector<Hypothesis> results() const;

  // The tokens that the best result is sure to begin with.
  std::vector<int32_t> agreed() const;

  // The weights over the source with which each token of a hypothesis was produced, a row a token.
  std::vector<float> alignment(const Hypothesis& hypothesis) const;

 private:
  int32_t take_entry();
  float* attention_of(std::size_t place);
  float* own_logits(const Logits& logits);
  void name_tokens(std::vector<int32_t>& places) const;

  const int64_t handle_;
  const int32_t source_length_;
  const int32_t start_id_;
  Selection& selection_;
  const Shortlist shortlist_;
  const Vocabulary vocabulary_;  // as the search sees it
  std::unique_ptr<Search> search_;
  // All it has taken, the source's first. Those of hypotheses that died are kept until it leaves.
  Lease entries_;
  std::size_t num_used_ = 0;
  bool is_selected_ = false;
  std::vector<float> logits_;     // of its shortlist alone, a row for each lane
  std::vector<float> attention_;  // a row for each row of each step; of the last step only, if nobody asks for more
  int32_t first_look_ = 0;        // place of the last step's first row in it
  int32_t position_ = 0;          // tokens that every lane has produced
  Status status_ = Status::running;
};

}  // namespace dragoman

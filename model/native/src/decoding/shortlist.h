// Shortlists: the tokens that a sentence may produce, and the part of the vocabulary projection that a batch needs.
#pragma once

#include <cstdint>
#include <vector>

#include "decoding/request.h"
#include "kernels/matrix.h"

namespace dragoman {

// Inside a search, a token is its index in the shortlist, so that a search sees a small vocabulary of its own. Without
// a shortlist, the index of a token is the token itself.
class Shortlist {
 public:
  explicit Shortlist(const Request& request)
      : tokens_(request.shortlist_ids, request.shortlist_ids + request.num_shortlisted) {}

  bool is_whole() const { return tokens_.empty(); }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  int32_t token(int32_t index) const { return is_whole() ? index : tokens_[index]; }

  // The indices of those tokens that the shortlist contains.
  std::vector<int32_t> indices(const int32_t* tokens, std::size_t count) const;
  // The vocabulary in indices. The start id stays a token, because the search does not see it.
  Vocabulary restrict(const Vocabulary& whole) const;

 private:
  std::vector<int32_t> tokens_;  // ascending; empty: the whole vocabulary
};

// The outputs of the vocabulary projection that the sentences of a session need, packed in one matrix. A step reads
// each output once for all rows, and an output that several sentences need is copied once. An unused output stays until
// its row is needed, because the next sentence is likely to use it.
class ShortlistProjection {
 public:
  explicit ShortlistProjection(const Matrix& whole);

  // Adds a sentence that needs these distinct outputs. Returns false, and changes nothing, if the sentences would use
  // more than three quarters of all outputs: the whole matrix is as fast then.
  bool acquire(const std::vector<int32_t>& outputs);
  // Removes a sentence that was added.
  void release(const std::vector<int32_t>& outputs);

  const Matrix& matrix() const { return matrix_; }
  // The row of the matrix that holds each output of the whole projection, or -1.
  const int32_t* index_map() const { return index_map_.data(); }

 private:
  int32_t num_rows() const { return static_cast<int32_t>(matrix_.outputs()); }
  int32_t next_unused(int32_t row) const;
  void place(int32_t output, int32_t row);
  void compact();

  const Matrix& whole_;
  Matrix matrix_;  // allocated by the first `acquire`
  std::vector<int32_t> index_map_;
  std::vector<int32_t> outputs_;     // the output in each row
  std::vector<int32_t> use_counts_;  // the sentences that need each row
  int32_t num_used_ = 0;             // rows with a positive use count
};

}  // namespace dragoman

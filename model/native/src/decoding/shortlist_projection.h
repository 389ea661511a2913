// The outputs of the projection onto the vocabulary that the sentences of a session may choose from.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/matrix.h"

namespace dragoman {

// Outputs that any sentence needs lie side by side in one matrix, each once: a step reads it once for all rows,
// and what is common to many sentences is copied once. One that nobody needs any more stays until its place is
// wanted, because the next sentence is likely to need it.
class Selection {
 public:
  explicit Selection(const Matrix& whole);

  // Lets a sentence need these outputs, each named once; false, and nothing has changed, if there is no room:
  // with more than three quarters of all outputs, the whole matrix is as good.
  bool add(const std::vector<int32_t>& outputs);
  // A sentence that was added has left.
  void remove(const std::vector<int32_t>& outputs);

  const Matrix& matrix() const { return matrix_; }
  // Which row of the matrix each output of the whole is; one that nobody needs may be nowhere, -1.
  const int32_t* places() const { return places_.data(); }

 private:
  int32_t num_places() const { return static_cast<int32_t>(matrix_.outputs()); }
  int32_t next_free(int32_t place) const;
  void put(int32_t output, int32_t place);
  void close_gaps();

  const Matrix& whole_;
  Matrix matrix_;                 // without memory until somebody needs it
  std::vector<int32_t> places_;   // of each output of the whole
  std::vector<int32_t> outputs_;  // at each place
  std::vector<int32_t> users_;    // sentences that need what is at each place
  int32_t num_used_ = 0;          // places with users
};

}  // namespace dragoman

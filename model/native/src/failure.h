// What went wrong last on this thread. No exception may cross into C.
#pragma once

#include <exception>
#include <new>
#include <string>

namespace dragoman {

struct Failure {
  std::string message;
  bool is_out_of_memory = false;  // then there is no message: it would need memory
};

inline thread_local Failure last_failure;

// What `body` gives. If it throws, `failure` instead, and why is kept.
template <typename Result, typename Body>
Result guarded(Result failure, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    last_failure.is_out_of_memory = true;
    return failure;
  } catch (const std::exception& error) {
    try {
      last_failure.message = error.what();
      last_failure.is_out_of_memory = false;
    } catch (...) {
      last_failure.is_out_of_memory = true;
    }
    return failure;
  }
}

}  // namespace dragoman

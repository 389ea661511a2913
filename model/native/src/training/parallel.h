// Work shared by several threads, in parts that are the same however many threads there are to do them.
#pragma once

#include <atomic>
#include <cstdint>

namespace dragoman {

// Runs `work(argument)` on so many threads at once, or fewer, the caller's among them, as GOMP_parallel does.
using RunOnThreads = void (*)(void (*work)(void*), void* argument, unsigned threads, unsigned flags);

// Who lends threads from now on; null for the library's own, which are started anew each time.
//
// Threads of OpenMP go on spinning for a while when their work is done. Threads beside them would wait for
// the cores that they hold, so that a process should have only one set.
void lend_threads(RunOnThreads run);

void run_on_threads(void (*work)(void*), void* argument, unsigned threads);

// Calls body(part) for 0 … parts - 1; it must not throw, which nobody on a lent thread could catch. Sums kept by
// part, and added up in their order, are always the same.
template <typename Body>
void for_each_part(int parts, int threads, const Body& body) {
  struct Shared {
    const Body& body;
    int parts;
    std::atomic<int> next{0};
  } shared{body, parts};
  const auto work = [](void* argument) {
    Shared& all = *static_cast<Shared*>(argument);
    for (int part = all.next++; part < all.parts; part = all.next++) all.body(part);
  };
  if (threads <= 1 || parts <= 1) {
    work(&shared);
  } else {
    run_on_threads(work, &shared, static_cast<unsigned>(threads));
  }
}

struct Range {
  int64_t begin;
  int64_t end;
};

// The share of one part of `count` things.
inline Range share_of(int64_t count, int part, int parts) { return {count * part / parts, count * (part + 1) / parts}; }

}  // namespace dragoman

// Work shared by several threads. It is divided into parts whose number does not depend on the number of threads, so
// that results do not either.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace dragoman {

// Runs `work(argument)` on at most `threads` threads at once, the caller's included. The signature is GOMP_parallel's.
using RunOnThreads = void (*)(void (*work)(void*), void* argument, unsigned threads, unsigned flags);

inline std::atomic<RunOnThreads> lent_threads{nullptr};

// Makes `for_each_part` use the threads of `run`; with null, it starts threads of its own for each call.
//
// A process should have only one set of threads: OpenMP's threads spin for a while after their work, and would keep
// other threads waiting for their cores.
inline void lend_threads(RunOnThreads run) { lent_threads = run; }

inline void run_on_threads(void (*work)(void*), void* argument, unsigned threads) {
  if (const RunOnThreads run = lent_threads) return run(work, argument, threads, 0);
  std::vector<std::thread> others;
  others.reserve(threads - 1);
  try {
    while (others.size() + 1 < threads) others.emplace_back(work, argument);
  } catch (const std::exception&) {
    // The system has no more threads. The ones that run do all the work.
  }
  work(argument);
  for (std::thread& other : others) other.join();
}

// Calls body(part) for 0 … parts - 1. The body must not throw: a lent thread could not catch the exception.
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

// The items of one part out of `count`.
inline Range range_of_part(int64_t count, int part, int parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

// Calls body(item, part) for all items, divided into parts.
template <typename Body>
void for_each_item(int64_t count, int parts, int threads, const Body& body) {
  for_each_part(parts, threads, [&](int part) {
    const Range items = range_of_part(count, part, parts);
    for (int64_t item = items.begin; item < items.end; ++item) body(item, part);
  });
}

}  // namespace dragoman

#include "training/parallel.h"

#include <exception>
#include <thread>
#include <vector>

namespace dragoman {

namespace {

std::atomic<RunOnThreads> lender{nullptr};

// Whether there is one thread more. Where the system has none, those that run do its part too.
bool start(std::vector<std::thread>& threads, void (*work)(void*), void* argument) {
  try {
    threads.emplace_back(work, argument);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

void lend_threads(RunOnThreads run) { lender = run; }

void run_on_threads(void (*work)(void*), void* argument, unsigned threads) {
  if (const RunOnThreads run = lender) {
    run(work, argument, threads, 0);
    return;
  }
  std::vector<std::thread> others;
  others.reserve(threads - 1);
  while (others.size() + 1 < threads && start(others, work, argument)) continue;
  work(argument);
  for (std::thread& other : others) other.join();
}

}  // namespace dragoman

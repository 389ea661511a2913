#include "parallel.h"

#include <thread>
#include <vector>

namespace dragoman {

namespace {
std::atomic<RunOnThreads> lender{nullptr};
}

void lend_threads(RunOnThreads run) { lender = run; }

void run_on_threads(void (*work)(void*), void* argument, unsigned threads) {
  if (const RunOnThreads run = lender) {
    run(work, argument, threads, 0);
    return;
  }
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work, argument);
  work(argument);
  for (std::thread& other : others) other.join();
}

}  // namespace dragoman

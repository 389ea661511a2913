// The C functions of the library, which model/native/binding.py and model/native/operators.py call with ctypes.
//
// A function that fails returns null or -1. dragoman_error() then returns the message, on the same thread.

#include <malloc.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "decoding/session.h"
#include "network/network.h"
#include "training/operators.h"
#include "training/parallel.h"

#define DRAGOMAN_API extern "C" __attribute__((visibility("default")))

using namespace dragoman;

namespace {

// ABI_VERSION in binding.py. Both change with a function of this file or a struct in its arguments.
constexpr int32_t kAbiVersion = 12;

thread_local std::string last_message;
thread_local bool is_out_of_memory = false;  // there is no message then, because it would need memory

// Returns the result of `body`. If it throws, keeps the reason and returns `failure`: no exception may pass into C.
template <typename Result, typename Body>
Result guarded(Result failure, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    is_out_of_memory = true;
    return failure;
  } catch (const std::exception& error) {
    try {
      last_message = error.what();
      is_out_of_memory = false;
    } catch (...) {
      is_out_of_memory = true;
    }
    return failure;
  }
}

// Calls a training operator, which fails only for lack of memory. Returns 0, or -1 if it fails.
template <typename Operator, typename... Arguments>
int32_t run(Operator compute, const Arguments&... arguments) {
  return guarded(-1, [&] { return compute(arguments...), 0; });
}

}  // namespace

DRAGOMAN_API int32_t dragoman_abi_version() { return kAbiVersion; }

// Requests permission from the system to use the library's instructions; returns 0 if it is denied. Must be called
// first. Linux saves the 8 KB of AMX tiles only for processes that request it
// (https://docs.kernel.org/arch/x86/xstate.html).
DRAGOMAN_API int32_t dragoman_request_instructions() {
#if defined(__AMX_TILE__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return 1;
#endif
}

DRAGOMAN_API const char* dragoman_error() { return last_message.c_str(); }

// Whether the last failure was a lack of memory; there is no message then.
DRAGOMAN_API int32_t dragoman_is_out_of_memory() { return is_out_of_memory; }

// With a negative descriptor the weights are in memory of this process, otherwise in a memory file
// (kernels/weight_memory.h).
DRAGOMAN_API Network* dragoman_network_create(const NetworkConfig* config, ReadTensor read, int32_t descriptor) {
  Network* const network = guarded<Network*>(nullptr, [=] { return new Network(*config, Tensors(read), descriptor); });
#if defined(__GLIBC__)
  malloc_trim(0);  // the tensors that were read and freed would otherwise stay in the heap
#endif
  return network;
}

DRAGOMAN_API int64_t dragoman_network_weight_bytes(const Network* network) { return network->weight_bytes(); }
DRAGOMAN_API int64_t dragoman_network_slot_bytes(const Network* network) {
  return network->kv_layout().layers * network->kv_layout().bytes;
}

DRAGOMAN_API void dragoman_network_free(Network* network) { delete network; }

DRAGOMAN_API Session* dragoman_session_create(const Network* network, const SessionConfig* config) {
  return guarded<Session*>(nullptr, [=] { return new Session(*network, *config); });
}

DRAGOMAN_API int32_t dragoman_session_admit(Session* session, const Request* requests, int32_t count) {
  return guarded(-1, [=] { return session->admit(requests, count), 0; });
}

DRAGOMAN_API int32_t dragoman_session_run(Session* session, int32_t max_steps, const int32_t* interrupt,
                                          Progress* progress) {
  return guarded(-1, [=] { return *progress = session->run(max_steps, interrupt), 0; });
}

DRAGOMAN_API void dragoman_session_drop(Session* session, const int64_t* handles, int32_t count) {
  std::for_each(handles, handles + count, [session](int64_t handle) { session->drop(handle); });
}

// Writes at most `capacity` tokens of the stable prefix, and returns its length.
DRAGOMAN_API int32_t dragoman_session_stable_prefix(const Session* session, int64_t handle, int32_t* tokens,
                                                    int32_t capacity) {
  return guarded(-1, [=] {
    const std::vector<int32_t> prefix = session->stable_prefix(handle);
    std::copy_n(prefix.begin(), std::min<std::size_t>(prefix.size(), capacity), tokens);
    return static_cast<int32_t>(prefix.size());
  });
}

DRAGOMAN_API int32_t dragoman_session_num_free_slots(const Session* session) { return session->num_free_slots(); }
DRAGOMAN_API void dragoman_session_free(Session* session) { delete session; }

DRAGOMAN_API void dragoman_lend_threads(RunOnThreads threads) { lend_threads(threads); }
DRAGOMAN_API int32_t dragoman_smoothed_loss(const LossRows* rows, double* sums) {
  return run(smoothed_loss, *rows, sums);
}

DRAGOMAN_API int32_t dragoman_smoothed_loss_gradient(const LossRows* rows, float scale, void* gradient) {
  return run(smoothed_loss_gradient, *rows, scale, gradient);
}

DRAGOMAN_API int32_t dragoman_dropout_add(const DropoutAdd* sum) { return run(dropout_add, *sum); }
DRAGOMAN_API int32_t dragoman_norm_rows(const NormedRows* norm) { return run(norm_rows, *norm); }

DRAGOMAN_API int32_t dragoman_norm_rows_gradient(const NormedRows* norm, const NormGradients* gradients) {
  return run(norm_rows_gradient, *norm, *gradients);
}

DRAGOMAN_API int32_t dragoman_attend_sentences(const SentenceAttention* attention, void* output) {
  return run(attend_sentences, *attention, output);
}

DRAGOMAN_API int32_t dragoman_attend_sentences_gradient(const SentenceAttention* attention,
                                                        const AttentionGradients* gradients) {
  return run(attend_sentences_gradient, *attention, *gradients);
}

DRAGOMAN_API int32_t dragoman_has_bfloat16_products() { return has_bfloat16_products(); }

DRAGOMAN_API int32_t dragoman_project(const Projection* projection, const uint16_t* inputs, uint16_t* outputs) {
  return run(project, *projection, inputs, outputs);
}

DRAGOMAN_API int32_t dragoman_project_gradient(const Projection* projection, const uint16_t* output_gradient,
                                               uint16_t* input_gradient) {
  return run(project_gradient, *projection, output_gradient, input_gradient);
}

DRAGOMAN_API int32_t dragoman_project_weight_gradient(const Projection* projection, const uint16_t* output_gradient,
                                                      const uint16_t* inputs, float* weight_gradient,
                                                      float* bias_gradient) {
  return run(project_weight_gradient, *projection, output_gradient, inputs, weight_gradient, bias_gradient);
}

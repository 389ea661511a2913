// The library's face: plain C, for ctypes. Whoever changes a struct or a function here, or in training_api.h,
// counts up kAbiVersion.
//
// What can fail returns null or -1; dragoman_error() then says why, on the same thread.
#pragma once

#include <cstdint>

#include "decoding/request.h"
#include "decoding/session.h"
#include "network/network.h"

namespace dragoman {

constexpr int32_t kAbiVersion = 7;

// A tensor by the name it has in the checkpoint.
struct NamedTensor {
  const char* name;
  const void* data;
  NumberType type;
  int64_t rows;
  int64_t columns;
};

struct SessionConfig {
  int32_t max_rows;
  int32_t max_entries;
  int32_t start_id;
  int32_t eos_id;
  const int32_t* never_produced;
  int32_t num_never_produced;
};

}  // namespace dragoman

#define DRAGOMAN_API extern "C" __attribute__((visibility("default")))

DRAGOMAN_API int32_t dragoman_abi_version();

// Asks the system for the use of what this library's instructions need; 0 if it refuses. Before all else.
DRAGOMAN_API int32_t dragoman_claim_processor();

DRAGOMAN_API const char* dragoman_error();
// Whether what failed last found no memory; then nothing else is wrong.
DRAGOMAN_API int32_t dragoman_is_out_of_memory();

DRAGOMAN_API dragoman::Network* dragoman_network_create(const dragoman::NetworkConfig* config,
                                                        const dragoman::NamedTensor* tensors, int32_t count);
DRAGOMAN_API int64_t dragoman_network_weight_bytes(const dragoman::Network* network);
DRAGOMAN_API int64_t dragoman_network_entry_bytes(const dragoman::Network* network);
DRAGOMAN_API void dragoman_network_free(dragoman::Network* network);

DRAGOMAN_API dragoman::Session* dragoman_session_create(const dragoman::Network* network,
                                                        const dragoman::SessionConfig* config);
DRAGOMAN_API int32_t dragoman_session_admit(dragoman::Session* session, const dragoman::Request* requests,
                                            int32_t count);
DRAGOMAN_API int32_t dragoman_session_run(dragoman::Session* session, int32_t max_steps, const int32_t* interrupt,
                                          dragoman::Progress* progress);
DRAGOMAN_API void dragoman_session_drop(dragoman::Session* session, const int64_t* handles, int32_t count);
// Writes at most `capacity` tokens; returns how many there are.
DRAGOMAN_API int32_t dragoman_session_agreed(const dragoman::Session* session, int64_t handle, int32_t* tokens,
                                             int32_t capacity);
DRAGOMAN_API int32_t dragoman_session_num_free_entries(const dragoman::Session* session);
DRAGOMAN_API void dragoman_session_free(dragoman::Session* session);

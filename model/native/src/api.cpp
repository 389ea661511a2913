#include "api.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "decoding/validate.h"
#include "failure.h"
#include "processor.h"

using namespace dragoman;

int32_t dragoman_abi_version() { return kAbiVersion; }

int32_t dragoman_claim_processor() { return claim_processor() ? 1 : 0; }

const char* dragoman_error() { return last_failure.message.c_str(); }

int32_t dragoman_is_out_of_memory() { return last_failure.is_out_of_memory; }

Network* dragoman_network_create(const NetworkConfig* config, const NamedTensor* tensors, int32_t count) {
  return guarded<Network*>(nullptr, [=] {
    Tensors named;
    for (int32_t i = 0; i < count; ++i) {
      named.add(tensors[i].name, {tensors[i].data, tensors[i].type, tensors[i].rows, tensors[i].columns});
    }
    return new Network(*config, named);
  });
}

int64_t dragoman_network_weight_bytes(const Network* network) { return network->weight_bytes(); }

int64_t dragoman_network_entry_bytes(const Network* network) {
  const StateLayout layout = network->state_layout();
  return int64_t{layout.layers} * 2 * layout.width * layout.number_bytes;
}

void dragoman_network_free(Network* network) { delete network; }

Session* dragoman_session_create(const Network* network, const SessionConfig* config) {
  return guarded<Session*>(nullptr, [=] {
    const int32_t* never = config->never_produced;
    Vocabulary vocabulary{network->config().target_vocab_size,
                          config->start_id,
                          config->eos_id,
                          {never, never + config->num_never_produced}};
    require_sound(vocabulary);
    return new Session(*network, std::move(vocabulary), config->max_rows, config->max_entries);
  });
}

int32_t dragoman_session_admit(Session* session, const Request* requests, int32_t count) {
  return guarded(-1, [=] {
    session->admit(requests, count);
    return 0;
  });
}

int32_t dragoman_session_run(Session* session, int32_t max_steps, const int32_t* interrupt, Progress* progress) {
  return guarded(-1, [=] {
    *progress = session->run(max_steps, interrupt);
    return 0;
  });
}

void dragoman_session_drop(Session* session, const int64_t* handles, int32_t count) {
  std::for_each(handles, handles + count, [session](int64_t handle) { session->drop(handle); });
}

int32_t dragoman_session_agreed(const Session* session, int64_t handle, int32_t* tokens, int32_t capacity) {
  return guarded(-1, [=] {
    const std::vector<int32_t> agreed = session->agreed(handle);
    std::copy_n(agreed.begin(), std::min<std::size_t>(agreed.size(), capacity), tokens);
    return static_cast<int32_t>(agreed.size());
  });
}

int32_t dragoman_session_num_free_entries(const Session* session) { return session->num_free_entries(); }

void dragoman_session_free(Session* session) { delete session; }

// What callers have to keep to, checked once where they come in: within, lengths and ids are trusted.
#pragma once

#include "decoding/constraints.h"
#include "decoding/request.h"
#include "network/network.h"

namespace dragoman {

// Both throw std::invalid_argument, which names what is wrong.
void require_sound(const Vocabulary& vocabulary);
void require_sound(const Request& request, const NetworkConfig& config);

}  // namespace dragoman

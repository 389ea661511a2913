// What a process must ask the system for before it uses some of the processor.
#pragma once

namespace dragoman {

// Whether this library's instructions may be used.
bool claim_processor();

}  // namespace dragoman

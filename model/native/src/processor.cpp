#include "processor.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace dragoman {

#if defined(__AMX_TILE__)

// Tiles are 8 KB more for the system to keep for each thread, which Linux gives only to who asks
// (https://docs.kernel.org/arch/x86/xstate.html).
bool claim_processor() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#else

bool claim_processor() { return true; }

#endif

}  // namespace dragoman

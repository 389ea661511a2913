"""Container health check: exit 0 while the service is ready for traffic, 1 otherwise.

Standard library only, and a file rather than a shell line: the image has neither curl nor a need for one.
"""

import os
import sys
import urllib.request

TIMEOUT_SECONDS = 2.0
# A proxy that the environment names would look for its own 127.0.0.1.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def failure(url: str) -> str | None:
    """Why the service is not ready, or None when it is."""
    try:
        # URLError is an OSError, and so is a time-out while reading.
        _direct.open(url, timeout=TIMEOUT_SECONDS).close()
    except (OSError, ValueError) as error:
        return f"{url}: {error}"
    return None


if __name__ == "__main__":
    port = os.environ.get("DRAGOMAN_PORT", "8000")
    sys.exit(failure(f"http://127.0.0.1:{port}/readyz"))

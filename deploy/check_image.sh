#!/bin/sh
# Builds the image of the service for a CPU with docker or podman, runs it as confined as docker-compose.yml does,
# and checks that it serves and ends cleanly:   make image
# BUILD_OPTIONS go to the build, for example --build-arg TORCH_INDEX_URL=…; BUILD=no checks an image that is there.
set -eu
cd "$(dirname "$0")/.."
image=${IMAGE:-dragoman:cpu}
name=dragoman-image-check

engine=$(command -v docker || command -v podman) || { echo "make image needs docker or podman" >&2; exit 1; }
"$engine" info >/dev/null 2>&1 || engine=$(command -v podman) || { echo "the docker engine does not answer" >&2; exit 1; }
# shellcheck disable=SC2086  # several options are meant
[ "${BUILD:-yes}" = no ] || "$engine" build --tag "$image" ${BUILD_OPTIONS:-} .

fail() {
  echo "FAILED: $1" >&2
  "$engine" logs "$name" >&2 || true
  exit 1
}
trap '"$engine" rm --force "$name" >/dev/null 2>&1 || true' EXIT
"$engine" rm --force "$name" >/dev/null 2>&1 || true
"$engine" run --detach --name "$name" --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
  --memory 4g --pids-limit 256 "$image" >/dev/null

seconds=0
until "$engine" exec "$name" python /srv/dragoman/healthcheck.py; do
  seconds=$((seconds + 1))
  [ "$seconds" -lt 60 ] || fail "not ready after a minute"
  sleep 1
done

answer=$("$engine" exec "$name" python -c '
import json, urllib.request
body = json.dumps({"q": "Good morning.", "source": "en", "target": "fr"}).encode()
request = urllib.request.Request("http://127.0.0.1:8000/translate", body, {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request))["translatedText"])') || fail "a request was refused"
[ "$answer" = "Bonjour." ] || fail "Good morning. is translated as: $answer"
[ "$("$engine" exec "$name" id -u)" = 10001 ] || fail "the process runs as another user than 10001"
"$engine" exec "$name" sh -c 'echo > /srv/dragoman/written' 2>/dev/null && fail "the root file system can be written"
"$engine" exec "$name" python -c 'import torch' 2>/dev/null && fail "the image for a CPU contains torch"

"$engine" stop --time 40 "$name" >/dev/null
status=$("$engine" inspect --format '{{.State.ExitCode}}' "$name")
[ "$status" = 0 ] || fail "SIGTERM ended the service with status $status"
size=$("$engine" image inspect --format '{{.Size}}' "$image")
echo "$image serves after $seconds s, is confined and ends with status 0; $((size / 1000000)) MB"

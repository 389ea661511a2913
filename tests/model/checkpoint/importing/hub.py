"""A stand-in of the Hugging Face hub: one model, served by HTTP."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """What the stand-in has and was asked for.

    Attributes:
        name: OWNER/NAME of the only model.
        files: Content by file name.
        downloads: Names of the files that were sent, in order.
        tokens: The `Authorization` of every request.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}
        self.downloads: list[str] = []
        self.tokens: list[str | None] = []

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Yields the endpoint."""
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self._answer(with_body=False)

            def do_GET(self) -> None:
                self._answer(with_body=True)

            def log_message(self, *args: object) -> None:
                pass

            def _answer(self, with_body: bool) -> None:
                hub.tokens.append(self.headers.get("Authorization"))
                path = unquote(self.path.partition("?")[0])
                if path.startswith(f"/api/models/{hub.name}"):
                    listed = [{"rfilename": name} for name in hub.files]
                    entries = [
                        {"type": "file", "path": name, "size": len(content), "oid": _etag(content)}
                        for name, content in hub.files.items()
                    ]
                    info = {"id": hub.name, "sha": COMMIT, "siblings": listed}
                    self._send(json.dumps(entries if "/tree/" in path else info).encode(), with_body)
                    return
                name = path.removeprefix(f"/{hub.name}/resolve/{COMMIT}/")
                if name not in hub.files:
                    self._send(b"{}", with_body, 404, {"X-Error-Code": "RepoNotFound"})
                    return
                if with_body:
                    hub.downloads.append(name)
                content = hub.files[name]
                self._send(content, with_body, 200, {"ETag": f'"{_etag(content)}"', "X-Repo-Commit": COMMIT})

            def _send(
                self,
                content: bytes,
                with_body: bool,
                status: int = 200,
                headers: dict[str, str] | None = None,
            ) -> None:
                self.send_response(status)
                for key, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                    self.send_header(key, value)
                self.end_headers()
                if with_body:
                    self.wfile.write(content)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _etag(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()

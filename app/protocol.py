"""① HTTP/1.1 on the wire: uvicorn's protocol, with our error body for bytes that are no request."""

import json
import sys
import uuid

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_TOO_LARGE = 431


class Protocol(H11Protocol):
    """Answers what h11 cannot read in the words of the rest of the API, and hangs up."""

    def send_400_response(self, msg: str) -> None:
        """Refuse; uvicorn calls this while it handles the parser's error, which knows the status."""
        fault = sys.exc_info()[1]
        is_large = isinstance(fault, h11.RemoteProtocolError) and fault.error_status_hint == _TOO_LARGE
        status, code = (_TOO_LARGE, "head_too_large") if is_large else (400, "malformed_request")
        error = "the head of the request is too large" if is_large else "this is not an HTTP/1.1 request"
        request_id = uuid.uuid4().hex
        body = json.dumps({"error": error, "code": code, "request_id": request_id}).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("X-Request-ID", request_id),
            ("Connection", "close"),
        ]
        events = (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage())
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()

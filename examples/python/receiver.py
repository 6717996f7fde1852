"""A webhook endpoint with nothing but the standard library of Python 3.9:

    export WEBHOOK_SECRET=… WEBHOOK_CHALLENGE=…
    python3 examples/python/receiver.py 3000
    dispensary check http://127.0.0.1:3000/webhooks --secret-env WEBHOOK_SECRET --challenge-env WEBHOOK_CHALLENGE
"""

import hashlib
import hmac
import json
import os
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ.get("WEBHOOK_SECRET", "")
CHALLENGE = os.environ.get("WEBHOOK_CHALLENGE", "")
TOLERANCE = 300  # seconds
MAX_BODY = 2 << 20  # bytes

# A program keeps events in a table with this unique key, in the transaction that handles them.
stored = {}
lock = threading.Lock()


def store(event):
    with lock:
        stored.setdefault((event["id"], event.get("integration_id")), event)


def verify(header, body):
    """Check the bytes as they arrived. During a rotation the header has two signatures."""
    match = re.fullmatch(r"t=([0-9]{1,12}),(.*)", header or "")
    if not match or abs(time.time() - int(match[1])) > TOLERANCE:
        return False
    wanted = "v1=" + hmac.new(SECRET.encode(), match[1].encode() + b"." + body, hashlib.sha256).hexdigest()
    return any(hmac.compare_digest(wanted.encode(), part.encode()) for part in match[2].split(","))


def parse(body):
    """Return the event of a body, or None."""
    try:
        event = json.loads(body)["event"]
        return event if event["id"] and event["type"] else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class TooLarge(Exception):
    """A body is larger than MAX_BODY."""


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30  # seconds without a byte

    def do_POST(self):
        try:
            body = self.read_body()
        except TooLarge:
            self.close_connection = True
            return self.respond(413)
        except (EOFError, ValueError):
            self.close_connection = True
            return self.respond(400)
        if not verify(self.headers.get("SVC-Signature"), body):
            return self.respond(401)
        if body:  # an empty body is a probe
            event = parse(body)
            if event is None:
                return self.respond(400)
            store(event)
        self.respond(200, json.dumps({"challenge": CHALLENGE}).encode())

    def reject_method(self):
        self.close_connection = True  # the body is not read
        self.respond(405)

    do_GET = do_HEAD = do_PUT = do_PATCH = do_DELETE = reject_method

    def read_body(self):
        """Read a body with a length, or one in chunks, which the standard library leaves encoded."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.read_exactly(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(100).split(b";")[0], 16):
            body += self.read_exactly(size, len(body))
            self.rfile.readline(100)
        while self.rfile.readline(1000).strip():
            pass  # trailers
        return body

    def read_exactly(self, size, before=0):
        if size < 0 or before + size > MAX_BODY:
            raise TooLarge
        data = self.rfile.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def respond(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # the sender is gone


if __name__ == "__main__":
    if not SECRET or not CHALLENGE:
        sys.exit("WEBHOOK_SECRET and WEBHOOK_CHALLENGE are required")
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 3000), Receiver)
    print(f"http://127.0.0.1:{server.server_address[1]}/webhooks", flush=True)
    server.serve_forever()

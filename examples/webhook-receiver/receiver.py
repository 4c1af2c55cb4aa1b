# Prints the messages of a webhook of Longshore, after checking their signatures (Standard Webhooks 1.0). Python 3, no packages.
# WEBHOOK_SECRET=whsec_... PORT=8080 python3 receiver.py
import base64, hashlib, hmac, json, os, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
TOLERANCE_S = 300
seen = set()  # of a real receiver: in its database, in the transaction that acts on the message


def is_genuine(headers, body):
    message_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdecimal() or abs(time.time() - int(sent_at)) > TOLERANCE_S:
        return False
    digest = hmac.new(KEY, f"{message_id}.{sent_at}.".encode() + body, hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(digest)
    given = headers.get("webhook-signature", "").encode().split(b" ")
    return any([hmac.compare_digest(one, expected) for one in given])


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        genuine = is_genuine(self.headers, body)
        if genuine and self.headers["webhook-id"] not in seen:
            message = json.loads(body)
            data = message["data"]
            print(message["type"], data.get("run_id", ""), data.get("state", ""), flush=True)
            seen.add(self.headers["webhook-id"])
        self.send_response(204 if genuine else 401)
        self.end_headers()


server = ThreadingHTTPServer((os.environ.get("HOST", "127.0.0.1"), int(os.environ.get("PORT", "8080"))), Receiver)
print(f"listening on {server.server_port}", flush=True)
server.serve_forever()

#!/usr/bin/env python3
"""The smallest worker that passes the conformance kit: plain runs, one at a time. docs/worker-protocol.md explains each rule."""
import http.client, itertools, json, os, queue, random, shlex, signal, subprocess, sys, tempfile, threading, time, uuid
from urllib.parse import quote, urlsplit

URL, KEY, ME, COMMAND = (os.environ["SERVICE_" + name] for name in ("URL", "API_KEY", "WORKER_ID", "WORKER_COMMAND"))
TICK, DRAIN = (float(os.environ.get("SERVICE_WORKER_" + name, value)) for name, value in (("TICK", 2), ("DRAIN", 30)))
PLAIN = {*"id image inputs constraints attempt name labels scheduled_for array traceparent tracestate ram_mb vram_mb cpu gpu_id".split()}
OWN_EVENTS = {*"SUBMITTED PREPARING STARTED COMPLETED FAILED CANCELLED RETRIED RECLAIMED".split()}
UNKNOWN = {401, 403, 408, 425, 429}  # beside 3xx, 5xx and what the service did not send
timeout, accepted, held = 60.0, 0.0, []  # the worker timeout, the newest accepted heartbeat, the runs that heartbeats name
stop_at, key_is_refused = float("inf"), False  # when a program is stopped although its attempt is not lost


def call(method, path, body=None, headers={}, limit=30.0):
    """One request: status, answer (of an error its detail), pause asked for. Status 0: no answer of the service."""
    global timeout
    place, data, status, pause = urlsplit(URL), body and json.dumps(body), 0, 0
    connect = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = connect(place.netloc, timeout=limit + len(data or "") / 4096)
    try:
        sent = {"X-API-Key": KEY, "Content-Type": "application/json", **headers}
        connection.request(method, place.path.rstrip("/") + path, data, sent)
        response = connection.getresponse()
        status, got = response.status, response.headers
        pause, timeout = min(60, int(got.get("Retry-After", 0))), float(got.get("X-Worker-Timeout", timeout))
        held.extend(got.get("X-Claimed-Runs", "").split())  # the rest of the answer may take long
        answer = {} if status == 204 else json.loads(response.read())
        return status, {**answer} if status < 300 else "" + answer["detail"], pause
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return 0, status, pause
    finally:
        connection.close()


def repeat(method, path, body=None, headers={}, limit=30.0, wanted=lambda: True):
    """Repeats one request until the service takes or refuses it; status 0 when it is no longer wanted."""
    since, refusals = time.monotonic(), 0
    for tries in itertools.count():
        if key_is_refused or not wanted():
            return 0, ""
        status, answer, pause = call(method, path, body, headers, limit)
        if 200 <= status < 300 or (400 <= status < 500 and status not in UNKNOWN):
            return status, answer
        if body and status == 0 and 400 <= answer < 500 and answer not in {404, 407, *UNKNOWN} - {403}:
            refusals, now = refusals + 1, time.monotonic()
            if refusals >= 5 and now - since > timeout and now - accepted < timeout / 2:
                return 413, f"a proxy in front of the service refuses {len(json.dumps(body))} bytes with HTTP {answer}"
        time.sleep(max(pause, min(15, 0.5 * 2 ** min(tries, 5)) * random.uniform(0.5, 1)))


def heartbeats():
    """Names the held runs, for ever; after a refusal asks about the key, and drains when that is refused for the worker timeout."""
    global accepted, key_is_refused
    refusals, resources = [], {"cpu_cores": os.cpu_count(), "ram_mb": 1024, "gpus": []}
    while True:
        ops = [{"id": id, "image": "", "inputs": {}, "constraints": {}} for id in held]
        body = {"worker_id": ME, "resources": resources, "tags": [], "running_ops": ops}
        status, _, _ = call("POST", "/workers/heartbeat", body, limit=timeout / 6)
        accepted = time.monotonic() if status == 200 else accepted
        is_refused = status in (401, 403) and call("GET", "/whoami", limit=10)[0] in (401, 403)
        refusals = [*refusals, time.monotonic()] if is_refused else []
        if len(refusals) >= 5 and refusals[-1] - refusals[0] > timeout and not key_is_refused:
            key_is_refused = True
            drain()
        time.sleep(timeout / 6 if accepted else 1)


class Run:
    def __init__(self, op):
        self.op, self.path, self.key, self.numbers = op, f"/runs/{op['id']}", uuid.uuid4(), itertools.count()
        self.program, self.lost, self.ended = None, threading.Event(), threading.Event()
        self.fence = {"X-Worker-Id": ME, "X-Run-Attempt": str(op["attempt"])}

    def report(self, type, msg, payload):
        """Sends an event until it is taken or refused: '', or why it was refused."""
        headers = {**self.fence, "Prefer": "return=minimal", "Idempotency-Key": f"{self.key}:{next(self.numbers)}"}
        body = {"type": type, "msg": msg, "payload": payload}
        status, answer = repeat("POST", self.path + "/events", body, headers, wanted=lambda: not self.lost.is_set())
        if status in (0, 404, 409) or "Run is already in terminal state" in answer:
            self.lost.set()
        return answer if status >= 400 else ""

    def is_ours(self, run):
        holder = run["execution_summary"].get("worker_id")
        return run["state"] in ("ASSIGNED", "RUNNING") and (run["current_attempt"], holder) == (self.op["attempt"], ME)

    def watch(self):
        """Stops the program when the attempt is lost, or the time to drain is over."""
        seconds = 0
        while not self.ended.wait(TICK):
            status, run, _ = call("GET", self.path, limit=10)
            if status == 200 and not self.is_ours(run):
                self.lost.set()
            if self.program and (self.lost.is_set() or time.monotonic() > stop_at):
                self.program.terminate() if seconds < 10 else self.program.kill()
                seconds += TICK

    def execute(self):
        threading.Thread(target=self.watch, daemon=True).start()
        try:
            with tempfile.TemporaryDirectory() as folder:
                type, payload = self.work(folder + "/input.json", folder + "/output.json")
        except Exception as error:  # a failed step is a failed run
            type, payload = "FAILED", {"cause": "error", "error_message": f"{error!r}"[:4000]}
        self.ended.set()
        for tries in itertools.count():
            why = "" if self.lost.is_set() else self.report(type, "The end", payload)
            if not why or self.lost.is_set() or (tries > 1 and "proxy" not in why):
                return
            text = f"The end was refused: {why}"[:4000] if tries == 0 else "The end was refused"
            type, payload = "FAILED", {"cause": payload.get("cause", "error"), "error_message": text}

    def work(self, inputs, outputs):
        """Executes the program: the last event and its payload."""
        # With these headers the template of outputs has URLs in the place of {"$artifact": ...}, as the inputs of the claim do.
        op, (status, run) = self.op, repeat("GET", self.path, None, self.fence)
        if status == 200 and not self.is_ours(run):
            self.lost.set()
        if {*op, *op["constraints"]} - PLAIN:
            lacks = ", ".join(sorted({*op, *op["constraints"]} - PLAIN))
            return "FAILED", {"cause": "infrastructure", "error_message": f"This worker lacks the capability for {lacks}"}
        for path, content in (inputs, op["inputs"]), (outputs, run["outputs"]):
            with open(path, "w") as file:
                json.dump(content, file)
        if self.lost.is_set() or self.report("STARTED", f"Started by {ME}", {"worker_id": ME}):
            raise RuntimeError("the service refused the start")
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "TRACE"))}
        env.update({name.upper(): op[name] for name in ("traceparent", "tracestate") if name in op})
        env.update(SERVICE_INPUT_PATH=inputs, SERVICE_OUTPUT_PATH=outputs, SERVICE_RUN_ID=op["id"],
                   SERVICE_RUN_ATTEMPT=str(op["attempt"]), SERVICE_CPU=str(max(1, op["constraints"]["cpu"])),
                   SERVICE_RAM_MB=str(op["constraints"]["ram_mb"]))
        if "scheduled_for" in op:
            env.update(SERVICE_SCHEDULED_FOR=op["scheduled_for"])
        if "array" in op:
            env.update(SERVICE_ARRAY_INDEX=str(op["array"]["index"]), SERVICE_ARRAY_SIZE=str(op["array"]["size"]))
        self.program = subprocess.Popen(shlex.split(COMMAND), env=env, errors="replace",
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        events, last = queue.Queue(10_000), []
        sender = threading.Thread(target=lambda: [self.report(*event) for event in iter(events.get, None)])
        sender.start()
        for line in self.program.stdout:
            last = [*last, line][-20:]
            try:
                event = json.loads(line)
                if event["type"] not in OWN_EVENTS:
                    events.put((event["type"], event["msg"], event.get("payload", {})))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                pass  # no event
        events.put(None)
        code = self.program.wait()
        sender.join()
        if time.monotonic() > stop_at:
            return "FAILED", {"cause": "infrastructure", "error_message": f"Worker '{ME}' is shutting down"}
        if code != 0:
            text = f"Exit code {code}. The last lines:\n" + "".join(last)[-3000:]
            return "FAILED", {"cause": "exit", "exit_code": code if code > 0 else 128 - code, "error_message": text}
        with open(outputs, encoding="utf-8") as file:
            return "COMPLETED", {"outputs": {**json.loads(file.read() or "{}")}}


def drain(*_):
    """No more claims; the program has DRAIN seconds."""
    global stop_at
    stop_at = min(stop_at, time.monotonic() + DRAIN)
    if not held:
        leave()


def leave():
    call("DELETE", "/workers/" + quote(ME, safe=""), limit=3)
    os._exit(3 if key_is_refused else 0)


for name in (signal.SIGTERM, signal.SIGINT):
    signal.signal(name, drain)
threading.Thread(target=heartbeats, daemon=True).start()
while stop_at == float("inf"):
    while not accepted:
        time.sleep(0.1)
    wait, asked = max(1, min(20, int(timeout / 3))), time.monotonic()
    path, key = f"/workers/{quote(ME, safe='')}/claim?wait={wait}", {"Idempotency-Key": str(uuid.uuid4())}
    status, answer = repeat("POST", path, None, key, limit=wait + max(2, timeout / 3))
    ops = {op["id"]: op for op in answer["ops"]} if status == 200 else {}
    held[:] = ops
    for op in ops.values():
        Run(op).execute()
        held.remove(op["id"])
    if not ops and time.monotonic() - asked < wait / 2:
        time.sleep(1)
leave()

#!/usr/bin/env python3
"""A worker for Longshore in plain Python, as docs/worker-protocol.md asks for it.

It executes SERVICE_WORKER_COMMAND for one run at a time. Settings are environment variables, as that page lists them.
The program stays in the worker's process group: who kills the worker by force kills the group, as supervisors do.
"""
import http.client, json, os, queue, random, re, shlex, shutil, signal, socket, subprocess, sys, tempfile, threading, time
import urllib.parse, uuid
from collections import deque

URL, KEY, ME = (os.environ["SERVICE_" + name] for name in ("URL", "API_KEY", "WORKER_ID"))
PLACE = urllib.parse.urlsplit(URL)
CONNECTION = http.client.HTTPSConnection if PLACE.scheme == "https" else http.client.HTTPConnection
COMMAND, PULL = (shlex.split(os.environ.get(f"SERVICE_WORKER_{name}", "")) for name in ("COMMAND", "PULL_COMMAND"))
TICK, DRAIN = float(os.environ.get("SERVICE_WORKER_TICK", 2)), float(os.environ.get("SERVICE_WORKER_DRAIN", 30))
TERMINAL = {"COMPLETED", "FAILED", "CANCELLED"}
CAPABILITIES = ["env", "command", "secrets"]
# Fields of runs and of their constraints that need other capabilities.
UNSUPPORTED = {"secrets_from", "files", "mounts", "artifacts", "image_pull_secret", "workdir", "user", "network", "stop_grace_s",
               "ulimits", "cpu_millis", "cpu_limit_millis", "gpus", "gpu_selector", "shm_mb"}
NOT_FROM_LOGS = TERMINAL | {"STARTED", "RETRIED", "RECLAIMED", "SUBMITTED", "PREPARING"}
timeout = 60.0  # the service's word replaces it
accepted = 0.0  # when the newest heartbeat was accepted
registered, stopping, claiming, current = threading.Event(), threading.Event(), threading.Event(), None
beating, changed = threading.Lock(), threading.Event()
tells = False  # whether answers to heartbeats name lost runs: those of an older service do not
plain = False  # whether the service is older and refuses what it does not know in a heartbeat
held = None  # the connection of the newest heartbeat that waits
receiving = []  # ids of the runs of an answer to a claim that is still arriving
doubting, refused = threading.Lock(), False  # whether the key is being asked about, and the result


def call(method, path, body=None, headers=None, limit=30.0, begin=lambda connection: None, heads=lambda headers: None):
    """One request: (status, JSON of a 200 or detail of an error, pause asked for); status 0 when the service gave no answer.

    With status 0, what is told is None, or the status with which something in front of the service refuses what was sent.
    No redirect is followed: it would hand the key to somebody else. The limit is one of silence; a large body may take its
    time, at 4 KiB a second and more.
    """
    global timeout
    sent = {"X-API-Key": KEY, **({} if body is None else {"Content-Type": "application/json"}), **(headers or {})}
    data = None if body is None else json.dumps(body).encode()
    connection, asked = CONNECTION(PLACE.netloc, timeout=limit + len(data or b"") / 4096), 0
    status = 0
    try:
        connection.connect()
        begin(connection)
        connection.request(method, PLACE.path.rstrip("/") + path, data, sent)
        answer = connection.getresponse()
        status, got, pause = answer.status, answer.headers, answer.headers.get("Retry-After") or "0"
        asked = min(float(pause) if pause.isdigit() else 0, 60)
        if status == 200:
            heads(got)
        answer = understood(status, answer.read(), got.get_content_type())
        timeout = float(got.get("X-Worker-Timeout") or timeout)
    except (OSError, http.client.HTTPException, ValueError):
        return 0, status if 400 <= status < 500 and status not in (401, 404, 407, 408, 425, 429) else None, asked
    finally:
        connection.close()
    if status in (401, 403) and path != "/whoami":
        if doubting.acquire(blocking=False):
            threading.Thread(target=doubt, daemon=True).start()
        return 0, answer, asked
    return status, answer, asked


def understood(status, text, media_type):
    """What the service says. ValueError: it is not the service that speaks, but a proxy."""
    if status in (204, 304):
        return ""
    answer = json.loads(text, parse_int=integer)
    if not isinstance(answer, dict):
        raise ValueError("not the service")
    if status == 200:
        return answer
    if media_type != "application/json" or not isinstance(answer.get("detail"), str):
        raise ValueError("not the service")
    return answer["detail"]


class TooManyDigits:
    """Stands for an integer that Python does not read: a run with one in its inputs fails when they are written."""


def integer(digits):
    try:
        return int(digits)
    except ValueError:
        return TooManyDigits()


def doubt():
    """Asks about the key: one refusal may be of one of several servers. Refused for the worker timeout, this worker ends."""
    global refused
    since, refusals = time.monotonic(), 0
    while refusals < 5 or time.monotonic() - since < timeout:
        status, _, asked = call("GET", "/whoami", limit=10)
        if status == 200:
            doubting.release()
            return
        refusals += status in (401, 403)
        time.sleep(max(asked, timeout / 8))
    refused = True
    print("the service refuses the key: no more claims, and the end of this worker", file=sys.stderr, flush=True)
    on_signal()


def until_known(method, path, body=None, headers=None, limit=30.0, goes_on=lambda: True, heads=lambda headers: None):
    """Repeats one and the same request until it was taken or refused; status 0 when nobody wants it any more.

    A body that a proxy refuses at five tries and for the worker timeout, while heartbeats are accepted, is refused: 413.
    """
    pause, since, refusals = 0.5, None, 0
    while goes_on():
        status, answer, asked = call(method, path, body, headers, limit, heads=heads)
        if 200 <= status < 300 or (400 <= status < 500 and status not in (408, 425, 429)):
            return status, answer
        if body and isinstance(answer, int):
            now, refusals = time.monotonic(), refusals + 1
            since = since or now
            if refusals >= 5 and now - since >= timeout and now - accepted < timeout / 2:
                size = len(json.dumps(body))
                return 413, f"a proxy in front of the service refuses {size} bytes with HTTP {answer}"
        time.sleep(max(asked, pause * random.uniform(0.5, 1)))
        pause = min(pause * 2, 15)
    return 0, None


def hold(connection):
    """Remembers the connection of a heartbeat that waits, unless it is out of date already."""
    global held
    held = connection
    if changed.is_set():
        raise ConnectionAbortedError


def renew():
    """Has a heartbeat sent with what this worker holds now; one that waits is broken off."""
    changed.set()
    try:
        held.sock.shutdown(socket.SHUT_RDWR)
    except (AttributeError, OSError):
        pass  # none waits


def heartbeat():
    """Says for ever that this worker lives and which run it holds, and hears whether that is lost."""
    global tells, plain, accepted
    resources = {"cpu_cores": os.cpu_count() or 1, "ram_mb": 1024, "gpus": []}
    while True:
        changed.clear()
        attempt, begun, lost = current, time.monotonic(), []
        named = [attempt.op] if attempt and not attempt.told else []
        kept = ("id", "image", "constraints", *(() if plain else ("attempt",)))
        ops = [{**{k: op[k] for k in kept}, "inputs": {}} for op in named]
        if not attempt:
            ops = [{"id": id, "image": "", "inputs": {}, "constraints": {}} for id in receiving]
        body = {"worker_id": ME, "resources": resources, "tags": [], "running_ops": ops}
        body.update({} if plain else {"capabilities": CAPABILITIES})
        # Waits only for a run to be lost. Together with the limit of the answer it is a third of the worker timeout.
        wait = min(20, int(timeout / 6)) if tells and named else 0
        query, begin = (f"?wait={wait}", hold) if wait else ("", lambda connection: None)
        with beating:
            status, answer, _ = call("POST", "/workers/heartbeat" + query, body, limit=wait + timeout / 6, begin=begin)
        if status == 200:
            registered.set()
            accepted = time.monotonic()
            tells, lost = "lost_ops" in answer, answer.get("lost_ops", []) if named else []
            plain = plain and not tells
            for run in lost:
                attempt.hear(run)
        elif status == 400 and wait:
            tells = False  # another process of the service is older
        elif status == 400:
            plain = True
        pause = timeout / 6 if registered.is_set() else 1
        if wait:  # an answer before its time, without a lost run: the service cannot hold it
            is_early = status != 400 and not lost and time.monotonic() - begun < wait * 0.9
            pause = min(2, pause) if is_early else 0
        changed.wait(pause)
        time.sleep(max(0, begun + min(0.5, timeout / 6) - time.monotonic()))  # at most two a second


def masking(values):
    """Makes a function that replaces the values of secrets, and their lines, in texts and JSON."""
    lines = [text for value in values for line in (value, *value.splitlines()) for text in (line, line.strip())]
    texts = {form for line in lines for form in (line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1])}
    texts = sorted((text for text in texts if len(text) >= 4 and text.strip()), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    def mask(value):
        if isinstance(value, dict):
            return {mask(name): mask(item) for name, item in value.items()}
        if isinstance(value, list):
            return [mask(item) for item in value]
        if isinstance(value, str):
            return pattern.sub("***", value)
        return mask(str(value)) if pattern.search(json.dumps(value)) else value

    return mask


def variables(op):
    """What the environment of its program says about a claimed run."""
    given = {"RUN_ID": op["id"], "RUN_ATTEMPT": op["attempt"], "CPU": max(1, op["constraints"]["cpu"]),
             "RAM_MB": op["constraints"]["ram_mb"]}
    if "scheduled_for" in op:
        given["SCHEDULED_FOR"] = op["scheduled_for"]
    if "array" in op:
        given.update(ARRAY_INDEX=op["array"]["index"], ARRAY_SIZE=op["array"]["size"])
    return {"SERVICE_" + name: str(value) for name, value in given.items()}


class Attempt:
    """One claimed run, from the claim's answer to the answer to its final event."""

    def __init__(self, op):
        self.op, self.path, self.number = op, "/runs/" + op["id"], op["attempt"]
        self.child, self.why, self.ended, self.key, self.sent = None, None, threading.Event(), uuid.uuid4(), 0
        self.told = False  # whether a heartbeat has heard that it is lost
        self.refusal = ""  # what the newest report was told when it was refused
        self.fence, self.mask = {"X-Worker-Id": ME, "X-Run-Attempt": str(self.number)}, masking([])

    def stop(self, why):
        """Ends the program: `lost`, the attempt is not ours any more, or `drain`, there is no time left."""
        self.why = "lost" if "lost" in (why, self.why) else why
        if self.child and self.child.poll() is None:
            self.child.terminate()
            threading.Timer(2, self.child.kill).start()

    def report(self, type, msg, payload=None):
        """Sends an event until it is taken or refused. Answers the status; 0 when the attempt is lost."""
        self.sent += 1
        headers = {**self.fence, "Prefer": "return=minimal", "Idempotency-Key": f"{self.key}:{self.sent}"}
        body = {"type": type, **self.mask({"msg": msg, **({} if payload is None else {"payload": payload})})}
        status, told = until_known("POST", self.path + "/events", body, headers, goes_on=lambda: self.why != "lost")
        if status == 409 or (status == 400 and "Run is already in terminal state" in told):
            self.stop("lost")
        self.refusal = told or ""
        return status

    def hear(self, run):
        """Takes what a heartbeat that named this attempt was told about a run."""
        if run["id"] == self.op["id"] and not self.is_ours(run["state"], run["attempt"], run["worker_id"]):
            self.told = True
            if not self.ended.is_set():  # after that, the answer to the final event decides
                self.stop("lost")

    def watch(self):
        """Looks at the run, if the service is older, until a 200 says that the attempt is not ours any more."""
        asked, seen = 0, {}  # the ETag of the last 200

        def keep(headers):
            seen.update({"If-None-Match": headers["ETag"]}) if "ETag" in headers else seen.clear()

        while not self.ended.wait(max(TICK, asked)):
            if tells:
                continue
            status, run, asked = call("GET", self.path, headers=seen, limit=10, heads=keep)
            if status == 200 and not self.shows_ours(run):
                return self.stop("lost")

    def shows_ours(self, run):
        return self.is_ours(run["state"], run["current_attempt"], run["execution_summary"].get("worker_id"))

    def is_ours(self, state, number, holder):
        return state not in TERMINAL and number == self.number and holder == ME

    def forward(self, line):
        """Reports a line of the log that speaks an event."""
        try:
            event = json.loads(line)
            kind, msg, payload = event["type"], event["msg"], event.get("payload")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return
        is_event = isinstance(kind, str) and type(msg) in (str, int) and isinstance(payload, (dict, type(None)))
        if is_event and kind not in NOT_FROM_LOGS and self.mask(kind) == kind:
            self.report(kind, msg, payload)

    def execute(self):
        """Goes all the way; the attempt is over for us when it returns."""
        folder = tempfile.mkdtemp(prefix="run-")
        try:
            threading.Thread(target=self.watch, daemon=True).start()
            kind, msg, payload = self.work(os.path.join(folder, "input.json"), os.path.join(folder, "output.json"))
        except Exception as error:  # a step that goes wrong is a failed run, not a failed worker
            # A pull command that fails stands for an image that cannot be had.
            cause = "image" if isinstance(error, subprocess.CalledProcessError) else "error"
            kind, msg = "FAILED", "A step failed"
            payload = {"error_message": self.mask(f"{type(error).__name__}: {error}")[:4000], "cause": cause}
        self.ended.set()
        shutil.rmtree(folder, ignore_errors=True)
        if self.why == "drain":
            kind, msg, payload = "FAILED", "Stopped", {"error_message": f"Worker '{ME}' is shutting down", "cause": "infrastructure"}
        if kind and self.why != "lost" and self.report(kind, msg, payload) in (400, 413, 415, 422):
            # What is refused for what it says is told plainly. A proxy that refuses this, too, refuses every report.
            why = dict(payload) if kind == "FAILED" else {"cause": "error"}
            why["error_message"] = f"The end of the run was refused: {self.refusal}"[:4000]
            while self.report("FAILED", "Refused", why) == 413:
                why["error_message"] = "The end of the run was refused"

    def secrets(self):
        """The values of the run's secrets by variable, from now on masked. They are in memory alone."""
        names, until, status, answer = self.op.get("secrets", {}), time.monotonic() + 60, 200, {"env": {}}
        while names and self.why is None:
            status, answer, asked = call("GET", self.path + "/secrets", headers=self.fence, limit=10)
            is_missing = status == 404 and any(f"'{name}'" in answer for name in names.values())
            # Another 404: a process of the service is older.
            is_refused = is_missing or (400 <= status < 500 and status not in (404, 408, 425, 429))
            is_off = status == 404 or (status == 503 and re.search("Secrets are not configured|cannot be decrypted", answer))
            if status == 409:
                self.stop("lost")
            if status == 200 or is_refused or (is_off and time.monotonic() > until):
                break
            time.sleep(max(asked, random.uniform(0.5, 1)))
        if status != 200:
            raise RuntimeError(f"the service does not give the secrets: {status} {answer}")
        self.mask = masking(answer["env"].values())
        return answer["env"]

    def work(self, inputs, outputs):
        """Prepares and executes the program. Answers the final event, or Nones when there is nothing to report."""
        # With both headers the template of outputs has URLs in the place of {"$artifact": ...}, as the inputs of the claim do.
        status, run = until_known("GET", self.path, headers=self.fence, goes_on=lambda: self.why is None)
        if status != 200:
            raise RuntimeError(f"the service does not show the run: {status} {run}")
        if not self.shows_ours(run):
            return None, None, None
        unsupported = UNSUPPORTED & {*self.op, *self.op["constraints"]}
        if unsupported:
            lacks = ", ".join(sorted(unsupported))
            why = {"error_message": f"This worker lacks the capability for {lacks}", "cause": "infrastructure"}
            return "FAILED", "Not supported", why
        secrets = self.secrets()
        if PULL:
            subprocess.run([*PULL, self.op["image"]], check=True)
        with open(inputs, "w") as file:
            json.dump(self.op["inputs"], file)
        if run["outputs"]:
            with open(outputs, "w") as file:
                json.dump(run["outputs"], file)
        if self.why or not 200 <= self.report("STARTED", f"Started by worker '{ME}'", {"worker_id": ME}) < 300:
            raise RuntimeError("the service did not take the start of the run")
        env = {name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "TRACE"))}
        env.update({**self.op.get("env", {}), **secrets})
        env.update((name.upper(), self.op[name]) for name in ("traceparent", "tracestate") if name in self.op)
        command = [*(self.op.get("command") or COMMAND), *(self.op.get("args") or [])]
        env.update(SERVICE_INPUT_PATH=inputs, SERVICE_OUTPUT_PATH=outputs, **variables(self.op))
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", env=env)
        if self.why:  # it was asked to stop before there was a program
            self.stop(self.why)
        tail, lines = deque(maxlen=20), queue.Queue(10_000)
        # A thread of its own: the program must not stand still while the service is slow.
        forwarder = threading.Thread(target=lambda: [self.forward(line) for line in iter(lines.get, None)])
        forwarder.start()
        for line in self.child.stdout:
            tail.append(self.mask(line))
            if line.startswith("{"):
                lines.put(line)
        lines.put(None)
        code = self.child.wait()
        forwarder.join()
        if code != 0:
            message = f"The program ended with exit code {code}. Its last lines:\n{''.join(tail)[-3000:]}"
            # Negative: the signal that ended the program.
            return "FAILED", f"Exit code {code}", {"error_message": message, "cause": "exit",
                                                   "exit_code": code if code >= 0 else 128 - code}
        if not os.path.exists(outputs) or os.path.getsize(outputs) == 0:
            return "COMPLETED", "Exit code 0", {}
        with open(outputs, encoding="utf-8") as file:
            given = json.load(file)
        if not isinstance(given, dict):
            raise ValueError("the outputs are no JSON object")
        return "COMPLETED", "Exit code 0", {"outputs": given}


def on_signal(*_):
    """No more claims; the program has DRAIN seconds. A waiting claim is broken off."""
    if not stopping.is_set():
        stopping.set()
        if claiming.is_set():
            leave()
        # With a refused key nothing can be reported: the service gives the run to another worker.
        drain = threading.Timer(DRAIN, lambda: current and current.stop("lost" if refused else "drain"))
        drain.daemon = True
        drain.start()


def assigned(headers):
    """Has heartbeats name the runs of an answer whose body may take long to arrive."""
    global receiving
    receiving = headers.get("X-Claimed-Runs", "").split()


def main():
    global current, receiving
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    threading.Thread(target=heartbeat, daemon=True).start()
    while not stopping.is_set():
        claiming.set()
        registered.wait()
        wait = max(1, min(20, int(timeout / 3)))
        path = f"/workers/{urllib.parse.quote(ME, safe='')}/claim?wait={wait}" + ("&max=1" if tells else "")
        # The one key stays until an answer has arrived: the service may have handed out a run all the same.
        asked = time.monotonic()
        status, answer = until_known("POST", path, headers={"Idempotency-Key": str(uuid.uuid4())},
                                     limit=wait + max(2, timeout / 3), heads=assigned)
        claiming.clear()
        for op in answer["ops"] if status == 200 else []:
            current, receiving = Attempt(op), []
            renew()
            current.execute()
            current = None
            renew()
        if status != 200 or (not answer["ops"] and time.monotonic() - asked < wait / 2):
            stopping.wait(1)


def leave():
    """Leaves the list of workers; a worker that does not is shown as stale for a day."""
    if beating.acquire(timeout=1):  # no heartbeat may follow
        call("DELETE", "/workers/" + urllib.parse.quote(ME, safe=""), limit=3)
    os._exit(3 if refused else 0)


if __name__ == "__main__":
    main()
    leave()

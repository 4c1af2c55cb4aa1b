#!/usr/bin/env python3
"""Starts and stops workers by what GET /capacity of Longshore says; docs/autoscaling.md tells how it counts.

    python3 autoscaler.py COMMAND...     the command starts one worker, with SERVICE_WORKER_ID in its environment

Here a worker is a process of this machine. For machines of a cloud put its calls into start() and stop(), and the id of
the worker into what the machine is started with. Settings are environment variables; workers do not see AUTOSCALER_*.
"""
import http.client, json, math, os, signal, subprocess, sys, time, urllib.parse, urllib.request, uuid


def setting(name, default):
    return type(default)(os.environ.get("AUTOSCALER_" + name) or default)


URL = os.environ.get("SERVICE_URL", "http://127.0.0.1:5555").rstrip("/")
KEY = setting("API_KEY", "")  # scope admin: workers are drained by it
LEAST, MOST = setting("MIN_WORKERS", 0), setting("MAX_WORKERS", 4)
RUNS_A_WORKER = setting("RUNS_PER_WORKER", 1)  # strategy direct: runs that a worker takes at a time
SIZE = {"cpu": setting("WORKER_CPU", os.cpu_count() or 1), "ram_mb": setting("WORKER_RAM_MB", 4096)}
VRAM_MB, GPUS = setting("WORKER_VRAM_MB", 0), setting("WORKER_GPUS", 0)  # of each GPU; how many of them
TAGS = {tag.strip() for tag in os.environ.get("SERVICE_WORKER_TAGS", "").split(",") if tag.strip()}
CAPABILITIES = set(setting("WORKER_CAPABILITIES", "env,command,secrets,registry").split(","))
ONLY_TAGGED = setting("ONLY_TAGGED", 0)  # 1: runs without a selector are left to other workers
INTERVAL, IDLE = setting("INTERVAL", 5.0), setting("IDLE_SECONDS", 60.0)
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("AUTOSCALER_")}


def call(method, path):
    request = urllib.request.Request(URL + path, headers={"X-API-Key": KEY}, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def runs_in_one_worker(shape):
    """How many runs of the shape an empty worker of ours holds at once; 0: none ever."""
    room = [SIZE[name] // shape[name] for name in SIZE if shape[name] > 0]
    if shape["vram_mb"] > 0:
        room.append(VRAM_MB // shape["vram_mb"] * GPUS)
    return min(room, default=math.inf)


def is_ours(entry):
    """Whether workers like ours may get runs with these requirements."""
    selector = set(entry["selector"])
    return selector <= TAGS and CAPABILITIES.issuperset(entry["capabilities"]) and (selector or not ONLY_TAGGED)


def wanted(report):
    """Workers that are enough for all of our runs that can start now or have started."""
    demand = report["demand"]
    ours = [entry for entry in demand["selectors"] if is_ours(entry)]
    runs = sum(one["ready"]["runs"] - one["held_back"] + one["in_execution"]["runs"] for one in ours)
    if report["strategy"] != "fit":
        needed = runs / RUNS_A_WORKER
    elif len(ours) == len(demand["selectors"]):
        load = [(shape["ready"] + shape["in_execution"], runs_in_one_worker(shape)) for shape in demand["shapes"]]
        needed = sum(runs / room for runs, room in load if room > 0)
        if any(runs and room for runs, room in load):  # also for runs that ask for nothing
            needed = max(needed, 1)
    else:  # shapes have the runs of others as well
        sizes = {**SIZE, "vram_mb": VRAM_MB * GPUS}
        load = {name: sum(one[stage][name] for one in ours for stage in ("ready", "in_execution")) for name in sizes}
        needed = max([load[name] / sizes[name] for name in sizes if sizes[name] > 0] + [min(runs, 1)])
    return min(MOST, max(LEAST, math.ceil(needed)))


class Worker:
    """One worker of ours."""

    def __init__(self, command):
        self.id = "auto-" + uuid.uuid4().hex[:12]  # never used again: a drain outlasts the worker
        self.process = subprocess.Popen(command, env={**ENVIRONMENT, "SERVICE_WORKER_ID": self.id})
        self.heard, self.heartbeats, self.is_draining, self.is_told = None, 0, False, False

    def drain(self):
        call("POST", f"/workers/{urllib.parse.quote(self.id, safe='')}/drain")
        self.is_draining, self.heartbeats = True, 0

    def is_empty(self, known):
        """Two heartbeats after the drain know of everything that was claimed before it."""
        if known["last_heartbeat_at"] != self.heard:
            self.heard, self.heartbeats = known["last_heartbeat_at"], self.heartbeats + 1
        return self.heartbeats > 2 and not known["running_ops"]

    def stop(self):
        if not self.is_told:  # a second signal would end its runs
            self.process.send_signal(signal.SIGTERM)
        self.is_told = True


def scale(workers, command, since):
    """One step. since: when there began to be too many workers, or None; answers the same for the next step."""
    report = call("GET", "/capacity")
    known = {worker["id"]: worker for worker in call("GET", "/workers")}
    for worker in [one for one in workers if one.process.poll() is not None]:
        workers.remove(worker)
    for worker in workers:
        if worker.is_draining and worker.id in known and worker.is_empty(known[worker.id]):
            worker.stop()
    taking = [worker for worker in workers if not worker.is_draining]
    missing = wanted(report) - len(taking)
    for _ in range(missing):
        workers.append(Worker(command))
        print("started", workers[-1].id, flush=True)
    if missing >= 0 or report["demand"]["at_least"]:  # then runs of ours may be pending that were not counted
        return None
    if since is None or time.monotonic() - since < IDLE:
        return since or time.monotonic()
    idle = [one for one in taking if one.id in known and not known[one.id]["running_ops"]]
    for worker in idle[:-missing]:
        worker.drain()
        print("drained", worker.id, flush=True)
    return since


def main(command):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    workers, since = [], None
    try:
        while True:
            try:
                since = scale(workers, command, since)
            except (OSError, ValueError, http.client.HTTPException) as problem:  # the next step may fare better
                print("not now:", problem, file=sys.stderr, flush=True)
            time.sleep(INTERVAL)
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.process.wait()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])

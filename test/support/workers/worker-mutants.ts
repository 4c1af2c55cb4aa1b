import type { Change } from './example-worker.js';

/** A worker with one mistake. */
export interface Mutant {
  /** What it does wrong. */
  readonly mistake: string;
  /** The scenario that is to find it out. */
  readonly scenario: string;
  /** The rule that the kit is to name. */
  readonly says: RegExp;
  readonly change: Change;
}

function mistakes(
  scenario: string,
  found: Readonly<Record<string, readonly [says: RegExp, ...change: Change]>>,
): Mutant[] {
  return Object.entries(found).map(([mistake, [says, ...change]]) => ({ mistake, scenario, says, change }));
}

/** Mistakes that workers make, one each, by the scenario that is to find them out. */
export const MUTANTS: readonly Mutant[] = [
  ...mistakes('odd-refusals', {
    'one 401 ends it': [
      /ended because of one 40[13]/,
      '        if doubting.acquire(blocking=False):\n',
      '        os._exit(1)\n        if doubting.acquire(blocking=False):\n',
    ],
  }),
  ...mistakes('foreign-answers', {
    'a page of a proxy counts as a refusal': [
      /timeline should be|should be COMPLETED|should be the last/,
      '    answer = json.loads(text, parse_int=integer)\n    if not isinstance(answer, dict):',
      '    if status >= 400:\n        return "HTTP error"\n    answer = json.loads(text, parse_int=integer)\n    if not isinstance(answer, dict):',
    ],
  }),
  ...mistakes('refusing-proxy', {
    'a report that a proxy refuses is repeated for ever': [
      /in vain until/,
      '            if refusals >= 5 and',
      '            if False and',
    ],
    'a few pages of a proxy end it': [
      /was given up after/,
      'refusals >= 5 and now - since >= timeout and now - accepted < timeout / 2',
      'refusals >= 3',
    ],
  }),
  ...mistakes('slow-answer', {
    'an answer to a claim has a limit of the total time': [
      /in vain until the run is COMPLETED|should be the last|should be COMPLETED|timeline should be/,
      '        begin(connection)\n        connection.request(',
      '        begin(connection)\n        threading.Timer(limit, lambda: connection.sock and connection.sock.shutdown(2)).start()\n        connection.request(',
    ],
    'heartbeats do not name the runs of an answer that is still arriving': [
      /should be the last|should be COMPLETED|timeline should be/,
      'for id in receiving]',
      'for id in []]',
    ],
  }),
  ...mistakes('older-service', {
    'a heartbeat that an older service refuses is repeated as it is': [
      /in vain until the worker has sent a heartbeat that the service takes/,
      '            plain = True',
      '            pass',
    ],
    'an older service is sent a query that it refuses': [
      /should be COMPLETED; it is FAILED/,
      'until_known("GET", self.path, headers=self.fence, goes_on',
      'until_known("GET", self.path + "?include_events=false", headers=self.fence, goes_on',
    ],
  }),
  ...mistakes('rolled-back', {
    'capabilities are not announced to an upgraded service': [
      /in vain until heartbeats announce what they did before/,
      '            plain = plain and not tells\n',
      '',
    ],
  }),
  ...mistakes('completes', {
    'the program does not learn of the trace of its run': [
      /the run's trace in TRACEPARENT, and found nothing/,
      '        env.update((name.upper()',
      '        dict((name.upper()',
    ],
    'the program gets the key': [/SERVICE_API_KEY/, 'if not name.startswith(("SERVICE_", "TRACE"))', ''],
    'folders stay': [
      /until the folder of the run is deleted/,
      'shutil.rmtree(folder, ignore_errors=True)',
      'pass',
    ],
    'a claim waits longer than the worker timeout': [
      /was to wait 20 s, and the worker timeout is 3 s/,
      'wait = max(1, min(20, int(timeout / 3)))',
      'wait = 20',
    ],
    'chunks of a log count from 1': [
      /first chunk of a log was sent as number 1/,
      '        forwarder.start()\n',
      `        forwarder.start()
        chunk = {"first_line": 0, "lines": [], "is_last": True}
        call("PUT", self.path + "/logs/1", chunk, {"X-Worker-Id": ME, "X-Run-Attempt": str(self.number)})
`,
    ],
  }),
  ...mistakes('variables', {
    'the program does not learn which run it is': [
      /SERVICE_RUN_ID should be \S{36} and is absent/,
      ', **variables(self.op))',
      ')',
    ],
    'the program does not learn the time of its schedule': [
      /SERVICE_SCHEDULED_FOR should be \S+ and is absent/,
      '    if "scheduled_for" in op:',
      '    if False:',
    ],
    'the program does not learn its place in an array': [
      /SERVICE_ARRAY_INDEX should be \d and is absent/,
      '    if "array" in op:',
      '    if False:',
    ],
  }),
  ...mistakes('long-run', {
    'heartbeats stand still while a program works': [
      /RECLAIMED/,
      '    while True:\n',
      '    while True:\n        while current and current.child:\n            time.sleep(0.1)\n',
    ],
    'heartbeats are far apart': [/ms apart/, 'pause = timeout / 6 if', 'pause = timeout * 0.6 if'],
  }),
  ...mistakes('slow-pull', {
    'heartbeats never name the run': [
      /took the run back|should be the last/,
      'if attempt and not attempt.told else []',
      'if False else []',
    ],
    'the program starts before STARTED was taken': [
      /before STARTED was taken/,
      `if self.why or not 200 <= self.report("STARTED", f"Started by worker '{ME}'", {"worker_id": ME}) < 300:`,
      `threading.Thread(target=self.report, args=("STARTED", "", {"worker_id": ME})).start()\n        if self.why:`,
    ],
  }),
  ...mistakes('partition', {
    'reports carry no fencing headers': [/second worker's COMPLETED was refused/, '{**self.fence, ', '{'],
  }),
  ...mistakes('headers', {
    'reports do not say which attempt they are about': [
      /X-Run-Attempt \(none\)/,
      ', "X-Run-Attempt": str(self.number)}',
      '}',
    ],
    'it claims before it is registered': [
      /before the first heartbeat was answered/,
      'registered.wait()',
      'pass',
    ],
  }),
  ...mistakes('lost-claim-answer', {
    'each repetition of a claim has a new key': [
      /under the same Idempotency-Key/,
      '        status, answer, asked = call(method,',
      '        if "/claim" in path:\n            headers = {"Idempotency-Key": str(uuid.uuid4())}\n        status, answer, asked = call(method,',
    ],
  }),
  ...mistakes('duplicate-reports', {
    'each repetition of a report has a new key': [
      /timeline should be/,
      '        status, answer, asked = call(method,',
      '        if path.endswith("/events"):\n            headers = {**headers, "Idempotency-Key": str(uuid.uuid4())}\n        status, answer, asked = call(method,',
    ],
  }),
  ...mistakes('busy-service', {
    'a report is given up after one 5xx': [
      /timeline should be|should be COMPLETED|should be the last/,
      'status not in (408, 425, 429)):',
      'status not in (408, 425, 429)) or path.endswith("/events"):',
    ],
    'Retry-After is not kept to': [
      /Retry-After 2 was answered/,
      'max(asked, pause * random.uniform(0.5, 1))',
      'pause * random.uniform(0.5, 1)',
    ],
    'redirects are followed': [
      /a redirect was followed/,
      '    return status, answer, asked',
      `    if 300 <= status < 400:
        followed, answer, asked = call(method, urllib.parse.urlsplit(got["Location"]).path, body, headers, limit)
        return followed if followed == 200 else 0, answer, asked
    return status, answer, asked`,
    ],
  }),
  ...mistakes('told-by-heartbeat', {
    'lost runs that a heartbeat was told of are ignored': [
      /in vain until the program has ended/,
      '                attempt.hear(run)',
      '                pass',
    ],
  }),
  ...mistakes('cut-heartbeat', {
    'a heartbeat without an answer stops the program': [
      /because a heartbeat was cut/,
      '        elif status == 400 and wait:',
      '        elif status == 0 and attempt:\n            attempt.stop("lost")\n        elif status == 400 and wait:',
    ],
  }),
  ...mistakes('taken-over', {
    'nobody looks whether the run was lost when the service is older': [
      /in vain until the program has ended/,
      'while not self.ended.wait(max(TICK, asked)):',
      'while False:',
    ],
    'a look does not compare the attempt': [
      /in vain until the program has ended/,
      'number == self.number and ',
      '',
    ],
  }),
  ...mistakes('killed-same-id', {
    'keys of reports begin anew with each life': [
      /timeline should be|should be the last|in vain/,
      'threading.Event(), uuid.uuid4(), 0',
      'threading.Event(), self.path, 0',
    ],
  }),
  ...mistakes('log-events', {
    'any line of the log becomes an event': [
      /that the program printed was reported/,
      'kind not in NOT_FROM_LOGS',
      'True',
    ],
    'a program may cancel its run by its log': [
      /a CANCELLED that the program printed was reported/,
      'NOT_FROM_LOGS = TERMINAL | {"STARTED", ',
      'NOT_FROM_LOGS = {"COMPLETED", "FAILED", "STARTED", ',
    ],
    'a program may report as a launcher by its log': [
      /a SUBMITTED that the program printed was reported/,
      '"RECLAIMED", "SUBMITTED", ',
      '"RECLAIMED", ',
    ],
    'a program may end the start timeout by its log': [
      /a PREPARING that the program printed was reported/,
      ', "PREPARING"}',
      '}',
    ],
  }),
  ...mistakes('fails', {
    'a failure has no reason': [/error_message/, '{"error_message": message, ', '{'],
  }),
  ...mistakes('drain', {
    'SIGTERM ends it in the middle of a run': [
      /ended before its run|in vain/,
      '    if not stopping.is_set():\n',
      '    os._exit(0)\n    if not stopping.is_set():\n',
    ],
  }),
  ...mistakes('blind-looks', {
    'a look without an answer stops the program': [
      /because of a 404, a 5xx or no answer/,
      'if status == 200 and not self.shows_ours(run)',
      'if status != 200 or not self.shows_ours(run)',
    ],
  }),
  ...mistakes('unanswered-end', {
    'heartbeats leave the run out once its program has ended': [
      /did not name the run/,
      'if attempt and not attempt.told',
      'if attempt and not attempt.ended.is_set()',
    ],
    'pauses do not grow': [/do not grow/, 'pause = min(pause * 2, 15)', 'pass'],
  }),
  ...mistakes('key-refused', {
    'a refused key is taken for any other refusal': [
      /refused with 401, has ended/,
      'if status in (401, 403) and path != "/whoami":',
      'if False:',
    ],
  }),
  ...mistakes('lost-attempt', {
    'a conflict stops nothing': [/in vain until the program has ended/, 'if status == 409 or ', 'if '],
  }),
  ...mistakes('refused-end', {
    'a COMPLETED that is refused is given up': [/should be the last/, 'in (400, 413, 415, 422)', 'in ()'],
  }),
  ...mistakes('idle-stop', {
    'the time limit of a claim is shorter than its wait': [
      /its time limit is too short/,
      'limit=wait + max(2, timeout / 3)',
      'limit=wait / 2',
    ],
  }),
  ...mistakes('several-runs', {
    'heartbeats name the first of several runs alone': [
      /did not name a run of a claim's answer/,
      '"&max=1" if tells else ""',
      '""',
    ],
  }),
  ...mistakes('secrets', {
    'values of secrets are reported as they are': [
      /in an event should be \*\*\*/,
      '        self.mask = masking(answer["env"].values())\n',
      '',
    ],
  }),
  ...mistakes('environment', {
    'the program gets the secrets alone': [
      /find the variables of the run as they are/,
      '{**self.op.get("env", {}), **secrets}',
      'secrets',
    ],
  }),
  ...mistakes('command', {
    'args replace nothing': [/arguments should be as they are/, ', *(self.op.get("args") or [])]', ']'],
  }),
  ...mistakes('capabilities', {
    'a run with a login is executed without it': [
      /started 0 time\(s\), not 1/,
      '        if unsupported:',
      '        if False:',
    ],
  }),
];

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT } from '../service-process.js';
import { PROXY_MUTANTS } from './proxy-mutants.js';
import { UPGRADE_MUTANTS } from './upgrade-mutants.js';

/** The example worker. */
export const EXAMPLE_WORKER = join(PROJECT, 'examples', 'worker', 'worker.py');

/** A worker with one mistake. */
export interface Mutant {
  /** What it does wrong. */
  readonly mistake: string;
  /** The scenario that is to find it out. */
  readonly scenario: string;
  /** The rule that the kit is to name. */
  readonly says: RegExp;
  /** Text of the example worker, and what stands there instead. */
  readonly change: readonly [from: string, to: string];
}

/** Mistakes that workers make, one each. */
export const MUTANTS: readonly Mutant[] = [
  ...PROXY_MUTANTS,
  ...UPGRADE_MUTANTS,
  {
    mistake: 'the program does not learn of the trace of its run',
    scenario: 'completes',
    says: /the run's trace in TRACEPARENT, and found nothing/,
    change: ['        env.update((name.upper()', '        dict((name.upper()'],
  },
  {
    mistake: 'heartbeats stand still while a program works',
    scenario: 'long-run',
    says: /RECLAIMED/,
    change: [
      '    while True:\n',
      '    while True:\n        while current and current.child:\n            time.sleep(0.1)\n',
    ],
  },
  {
    mistake: 'heartbeats never name the run',
    scenario: 'slow-pull',
    says: /took the run back|should be the last/,
    change: ['if attempt and not attempt.told else []', 'if False else []'],
  },
  {
    mistake: 'the program starts before STARTED was taken',
    scenario: 'slow-pull',
    says: /before STARTED was taken/,
    change: [
      `if self.why or not 200 <= self.report("STARTED", f"Started by worker '{ME}'", {"worker_id": ME}) < 300:`,
      `threading.Thread(target=self.report, args=("STARTED", "", {"worker_id": ME})).start()\n        if self.why:`,
    ],
  },
  {
    mistake: 'reports carry no fencing headers',
    scenario: 'partition',
    says: /second worker's COMPLETED was refused/,
    change: ['{**self.fence, ', '{'],
  },
  {
    mistake: 'reports do not say which attempt they are about',
    scenario: 'headers',
    says: /X-Run-Attempt \(none\)/,
    change: [', "X-Run-Attempt": str(self.number)}', '}'],
  },
  {
    mistake: 'each repetition of a claim has a new key',
    scenario: 'lost-claim-answer',
    says: /under the same Idempotency-Key/,
    change: [
      '        status, answer, asked = call(method,',
      '        if "/claim" in path:\n            headers = {"Idempotency-Key": str(uuid.uuid4())}\n        status, answer, asked = call(method,',
    ],
  },
  {
    mistake: 'each repetition of a report has a new key',
    scenario: 'duplicate-reports',
    says: /timeline should be/,
    change: [
      '        status, answer, asked = call(method,',
      '        if path.endswith("/events"):\n            headers = {**headers, "Idempotency-Key": str(uuid.uuid4())}\n        status, answer, asked = call(method,',
    ],
  },
  {
    mistake: 'a report is given up after one 5xx',
    scenario: 'busy-service',
    says: /timeline should be|should be COMPLETED|should be the last/,
    change: [
      'status not in (408, 425, 429)):',
      'status not in (408, 425, 429)) or path.endswith("/events"):',
    ],
  },
  {
    mistake: 'lost runs that a heartbeat was told of are ignored',
    scenario: 'told-by-heartbeat',
    says: /in vain until the program has ended/,
    change: ['                attempt.hear(run)', '                pass'],
  },
  {
    mistake: 'a heartbeat without an answer stops the program',
    scenario: 'cut-heartbeat',
    says: /because a heartbeat was cut/,
    change: [
      '        elif status == 400 and wait:',
      '        elif status == 0 and attempt:\n            attempt.stop("lost")\n        elif status == 400 and wait:',
    ],
  },
  {
    mistake: 'nobody looks whether the run was lost when the service is older',
    scenario: 'taken-over',
    says: /in vain until the program has ended/,
    change: ['while not self.ended.wait(max(TICK, asked)):', 'while False:'],
  },
  {
    mistake: 'keys of reports begin anew with each life',
    scenario: 'killed-same-id',
    says: /timeline should be|should be the last|in vain/,
    change: ['threading.Event(), uuid.uuid4(), 0', 'threading.Event(), self.path, 0'],
  },
  {
    mistake: 'any line of the log becomes an event',
    scenario: 'log-events',
    says: /that the program printed was reported/,
    change: ['kind not in NOT_FROM_LOGS', 'True'],
  },
  {
    mistake: 'the program gets the key',
    scenario: 'completes',
    says: /SERVICE_API_KEY/,
    change: ['if not name.startswith(("SERVICE_", "TRACE"))', ''],
  },
  {
    mistake: 'a failure has no reason',
    scenario: 'fails',
    says: /error_message/,
    change: ['{"error_message": message, ', '{'],
  },
  {
    mistake: 'SIGTERM ends it in the middle of a run',
    scenario: 'drain',
    says: /ended before its run|in vain/,
    change: ['    if not stopping.is_set():\n', '    os._exit(0)\n    if not stopping.is_set():\n'],
  },
  {
    mistake: 'a program may cancel its run by its log',
    scenario: 'log-events',
    says: /a CANCELLED that the program printed was reported/,
    change: [
      'NOT_FROM_LOGS = TERMINAL | {"STARTED", ',
      'NOT_FROM_LOGS = {"COMPLETED", "FAILED", "STARTED", ',
    ],
  },
  {
    mistake: 'a program may report as a launcher by its log',
    scenario: 'log-events',
    says: /a SUBMITTED that the program printed was reported/,
    change: ['"RECLAIMED", "SUBMITTED"}', '"RECLAIMED"}'],
  },
  {
    mistake: 'a look without an answer stops the program',
    scenario: 'blind-looks',
    says: /because of a 404, a 5xx or no answer/,
    change: ['if status == 200 and not self.shows_ours(run)', 'if status != 200 or not self.shows_ours(run)'],
  },
  {
    mistake: 'heartbeats leave the run out once its program has ended',
    scenario: 'unanswered-end',
    says: /did not name the run/,
    change: ['if attempt and not attempt.told', 'if attempt and not attempt.ended.is_set()'],
  },
  {
    mistake: 'pauses do not grow',
    scenario: 'unanswered-end',
    says: /do not grow/,
    change: ['pause = min(pause * 2, 15)', 'pass'],
  },
  {
    mistake: 'a look does not compare the attempt',
    scenario: 'taken-over',
    says: /in vain until the program has ended/,
    change: ['number == self.number and ', ''],
  },
  {
    mistake: 'a look does not compare the worker',
    scenario: 'taken-over',
    says: /in vain until the program has ended/,
    change: [' and holder == ME', ''],
  },
  {
    mistake: 'a refused key is taken for any other refusal',
    scenario: 'key-refused',
    says: /refused with 401, has ended/,
    change: ['if status in (401, 403) and path != "/whoami":', 'if False:'],
  },
  {
    mistake: 'a conflict stops nothing',
    scenario: 'lost-attempt',
    says: /in vain until the program has ended/,
    change: ['if status == 409 or ', 'if '],
  },
  {
    mistake: 'a report about a run that has ended stops nothing',
    scenario: 'lost-attempt',
    says: /in vain until the program has ended/,
    change: ['"Run is already in terminal state" in told', 'False'],
  },
  {
    mistake: 'a COMPLETED that is refused is given up',
    scenario: 'refused-end',
    says: /should be the last/,
    change: ['in (400, 413, 415, 422)', 'in ()'],
  },
  {
    mistake: 'heartbeats are far apart',
    scenario: 'long-run',
    says: /ms apart/,
    change: ['pause = timeout / 6 if', 'pause = timeout * 0.6 if'],
  },
  {
    mistake: 'it claims before it is registered',
    scenario: 'headers',
    says: /before the first heartbeat was answered/,
    change: ['registered.wait()', 'pass'],
  },
  {
    mistake: 'Retry-After is not kept to',
    scenario: 'busy-service',
    says: /Retry-After 2 was answered/,
    change: ['max(asked, pause * random.uniform(0.5, 1))', 'pause * random.uniform(0.5, 1)'],
  },
  {
    mistake: 'redirects are followed',
    scenario: 'busy-service',
    says: /a redirect was followed/,
    change: [
      '    return status, answer, asked',
      `    if 300 <= status < 400:
        followed, answer, asked = call(method, urllib.parse.urlsplit(got["Location"]).path, body, headers, limit)
        return followed if followed == 200 else 0, answer, asked
    return status, answer, asked`,
    ],
  },
  {
    mistake: 'folders stay',
    scenario: 'completes',
    says: /until the folder of the run is deleted/,
    change: ['shutil.rmtree(folder, ignore_errors=True)', 'pass'],
  },
  {
    mistake: 'a claim waits longer than the worker timeout',
    scenario: 'completes',
    says: /was to wait 20 s, and the worker timeout is 3 s/,
    change: ['wait = max(1, min(20, int(timeout / 3)))', 'wait = 20'],
  },
  {
    mistake: 'the time limit of a claim is shorter than its wait',
    scenario: 'idle-stop',
    says: /its time limit is too short/,
    change: ['limit=wait + max(2, timeout / 3)', 'limit=wait / 2'],
  },
  {
    mistake: 'heartbeats name the first of several runs alone',
    scenario: 'several-runs',
    says: /did not name a run of a claim's answer/,
    change: ['"&max=1" if tells else ""', '""'],
  },
  {
    mistake: 'values of secrets are reported as they are',
    scenario: 'secrets',
    says: /in an event should be \*\*\*/,
    change: ['        self.mask = masking(answer["env"].values())\n', ''],
  },
  {
    mistake: 'the program gets the secrets alone',
    scenario: 'environment',
    says: /find the variables of the run as they are/,
    change: ['{**self.op.get("env", {}), **secrets}', 'secrets'],
  },
  {
    mistake: 'args replace nothing',
    scenario: 'command',
    says: /arguments should be as they are/,
    change: [', *(self.op.get("args") or [])]', ']'],
  },
  {
    mistake: 'a run with a login is executed without it',
    scenario: 'capabilities',
    says: /started 0 time\(s\), not 1/,
    change: ['        if unsupported:', '        if False:'],
  },
  {
    mistake: 'chunks of a log count from 1',
    scenario: 'completes',
    says: /first chunk of a log was sent as number 1/,
    change: [
      '        forwarder.start()\n',
      `        forwarder.start()
        chunk = {"first_line": 0, "lines": [], "is_last": True}
        call("PUT", self.path + "/logs/1", chunk, {"X-Worker-Id": ME, "X-Run-Attempt": str(self.number)})
`,
    ],
  },
];

/** Writes a program: the example worker with changes. @returns the command that starts it */
export async function writeWorker(changes: readonly Mutant['change'][], folder: string): Promise<string> {
  let text = await readFile(EXAMPLE_WORKER, 'utf8');
  for (const [from, to] of changes) {
    assert.equal(text.split(from).length, 2, `the example worker holds this once: ${from}`);
    text = text.replace(from, () => to);
  }
  await mkdir(folder, { recursive: true });
  const path = join(folder, 'worker.py');
  await writeFile(path, text);
  return `python3 '${path}'`;
}

/** Why Python cannot be asked for here; false when it can, and where it must be there. */
export function whyNoPython(): string | false {
  // Debian's python3-minimal has neither.
  const isThere = spawnSync('python3', ['-c', 'import http.client, json']).status === 0;
  return isThere || process.env['CI'] !== undefined
    ? false
    : 'python3 or its standard library is not installed';
}

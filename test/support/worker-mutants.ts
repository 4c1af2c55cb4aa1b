import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PROJECT } from './service-process.js';

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
    change: ['if attempt else []', 'if False else []'],
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
    change: ['{"X-Worker-Id": ME, "X-Run-Attempt": str(self.number), ', '{'],
  },
  {
    mistake: 'reports do not say which attempt they are about',
    scenario: 'headers',
    says: /X-Run-Attempt \(none\)/,
    change: ['"X-Run-Attempt": str(self.number), ', ''],
  },
  {
    mistake: 'each repetition of a claim has a new key',
    scenario: 'lost-claim-answer',
    says: /under the same Idempotency-Key/,
    change: [
      '        status, answer, got = call(',
      '        if "/claim" in path:\n            headers = {"Idempotency-Key": str(uuid.uuid4())}\n        status, answer, got = call(',
    ],
  },
  {
    mistake: 'each repetition of a report has a new key',
    scenario: 'duplicate-reports',
    says: /timeline should be/,
    change: [
      '        status, answer, got = call(',
      '        if path.endswith("/events"):\n            headers = {**headers, "Idempotency-Key": str(uuid.uuid4())}\n        status, answer, got = call(',
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
    mistake: 'nobody looks whether the run was cancelled',
    scenario: 'cancel',
    says: /in vain until the program has ended/,
    change: ['while not self.ended.wait(TICK):', 'while False:'],
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
    says: /should be COMPLETED|timeline should be/,
    change: ['kind not in NOT_FROM_LOGS', 'True'],
  },
  {
    mistake: 'the program gets the key',
    scenario: 'completes',
    says: /SERVICE_API_KEY/,
    change: ['if not name.startswith("SERVICE_")', ''],
  },
  {
    mistake: 'a failure has no reason',
    scenario: 'fails',
    says: /error_message/,
    change: ['{"error_message": message}', '{}'],
  },
  {
    mistake: 'SIGTERM ends it in the middle of a run',
    scenario: 'drain',
    says: /ended before its run|in vain/,
    change: ['    if not stopping.is_set():\n', '    os._exit(0)\n    if not stopping.is_set():\n'],
  },
];

/** Writes the mutant's program. @returns the command that starts it */
export async function writeMutant({ change: [from, to] }: Mutant, folder: string): Promise<string> {
  const text = await readFile(EXAMPLE_WORKER, 'utf8');
  assert.equal(text.split(from).length, 2, `the example worker holds this once: ${from}`);
  await mkdir(folder, { recursive: true });
  const path = join(folder, 'worker.py');
  await writeFile(
    path,
    text.replace(from, () => to),
  );
  return `python3 '${path}'`;
}

/** Why Python cannot be asked for here; false when it can, and where it must be there. */
export function whyNoPython(): string | false {
  const isThere = spawnSync('python3', ['--version']).status === 0;
  return isThere || process.env['CI'] !== undefined ? false : 'python3 is not installed';
}

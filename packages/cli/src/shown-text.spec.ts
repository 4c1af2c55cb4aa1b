import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { describe, test } from 'vitest';
import { isRetryable, refusalOf, refusalText } from './cli-error.js';
import { explanationText } from './commands/run-read.js';
import { LogPrinter } from './runs/log-text.js';
import { Output, progressLine } from './terminal/output.js';
import { eventText } from './runs/run-view.js';
import { formatFields, formatTable } from './terminal/table.js';

const controls = '\u0000\u0007\b\u001b[2J\u007f\u0085\u009b31m\u061c\u200e\u2028\u202e\u2066';
const evil = `a${controls}\r\nforged`;
const explained = {
  run_id: 'r',
  state: 'PENDING',
  ended: null,
  attempt: 1,
  strategy: evil,
  reason: 'queue',
  summary: evil,
  queue: {
    position: 1,
    position_is_exact: true,
    waiting_ms: 1,
    not_before: null,
    start_at: null,
    passed_over_at: null,
    priority: 0,
    queued_at: 't',
    reserved_for: evil,
    avoided_worker: evil,
  },
  deadline: null,
  holder: {
    worker_id: evil,
    assigned_at: null,
    started_at: null,
    last_heartbeat_at: null,
    silent_ms: null,
    is_active: true,
    away_until: null,
    draining: false,
    reported_running: true,
    ending: null,
    engine: { name: evil, id: evil, reason: evil, at: 't' },
    preparing: { what: evil, since: 't' },
  },
  counts: null,
  requirements: null,
  concurrency: null,
  waiting_for: new Array<never>(),
  paused_by: new Array<never>(),
  schedule: null,
  missing_secrets: new Array<string>(),
  workers: [],
} as const;

const STYLE = { columns: 200, colours: false };
const WORKER = {
  id: 'w',
  can_take_now: false,
  could_ever: true,
  draining: false,
  not_claiming: [],
  unable: [],
  ending: null,
  obstacles: [],
};

test('an explanation names what workers lack, and the runs that hold the concurrency key', () => {
  const lacking = { resource: 'tags', needed: 1, free: 0, total: 0, missing: ['gpu'] };
  const worker = { ...WORKER, could_ever: false, obstacles: [lacking] };
  const holders = ['a', 'b'].map((id) => ({ run_id: id, state: 'RUNNING' as const, worker_id: 'w' }));
  const text = explanationText(
    {
      ...explained,
      workers: [worker],
      requirements: { selector: ['gpu', 'eu'], capabilities: ['env'], gpu_selector: [] },
      concurrency: { key: 'disk', limit: 2, executing: 2, holders },
    },
    STYLE,
  );
  for (const told of [
    /^needs tags +gpu, eu$/m,
    /^needs capabilities +env$/m,
    /^concurrency key +disk: 2 of 2 in execution$/m,
    /^key held by +a, b$/m,
    /^w +no +no +tags: lacks gpu$/m,
  ]) {
    assert.match(text, told);
  }
});

test('a SUBMITTED of a timeline shows why the job waits', () => {
  const event = { id: 0, t: 't', state: 'ASSIGNED' as const, type: 'SUBMITTED', msg: 'Submitted' };
  assert.equal(eventText({ ...event, payload: { reason: 'Priority' } }), 't  SUBMITTED  Submitted Priority');
  assert.equal(eventText({ ...event, payload: {} }), 't  SUBMITTED  Submitted');
});

test('an explanation says why a worker does not claim, and what it is unable to do, in its words on one line', () => {
  const said = [
    { reason: 'engine_paused' as const, message: 'no\nanswer' },
    { reason: 'draining' as const, message: '' },
  ];
  const unable = [{ ability: 'gpus' as const, message: 'no\ndriver' }];
  const worker = { ...WORKER, not_claiming: said, unable };
  const counts = { active: 1, draining: 0, not_claiming: 1, away: 0, stale: 0, able_now: 0, able_ever: 0 };
  const text = explanationText({ ...explained, counts, workers: [worker] }, STYLE);
  assert.match(text, /^w +no +yes +engine_paused: no.{1,2}answer; draining; unable gpus: no.{1,2}driver$/m);
  assert.match(text, /0 draining, 1 not claiming, 0 away, 0 stale/);
});

test('the counts of an explanation agree with its rows: draining workers are named apart', () => {
  const worker = { ...WORKER, draining: true };
  const counts = { active: 1, draining: 1, not_claiming: 0, away: 0, stale: 0, able_now: 0, able_ever: 0 };
  const text = explanationText({ ...explained, counts, workers: [worker] }, STYLE);
  const told =
    '1 active (0 can take it now, 0 ever; those that claim nothing are not counted), 1 draining, 0 not claiming, 0 away, 0 stale';
  assert.ok(text.includes(told), text);
  const open = { active: 1, draining: 0, not_claiming: 0, away: 0, stale: 0, able_now: 1, able_ever: 1 };
  assert.ok(
    explanationText({ ...explained, counts: open, workers: [] }, STYLE).includes(
      '1 active (1 can take it now, 1 ever), 0',
    ),
  );
});

describe('what a terminal shows', () => {
  class FakeTerminal extends Writable {
    readonly isTTY = true;
    readonly columns = 80;
    text = '';

    hasColors(): boolean {
      return true;
    }

    override _write(chunk: Buffer, _encoding: string, done: () => void): void {
      this.text += chunk.toString();
      done();
    }
  }

  const out = new FakeTerminal();
  const err = new FakeTerminal();
  const output = new Output(out, err, { TERM: 'dumb' });
  const payload = { outputs: { [evil]: evil } };
  const event = { t: 't', type: evil, id: 0, state: 'RUNNING', msg: evil, payload } as const;

  test('has no control characters, line separators or marks of direction of a text from outside', async () => {
    await output.json({ [evil]: evil });
    await output.line(JSON.stringify({ [evil]: evil }, null, 2));
    await output.write(formatTable([{ title: 'T', text: () => evil }], [evil], output));
    await output.write(formatFields([['name', evil]], true));
    for (const json of [false, true]) {
      const printer = new LogPrinter({ json, timestamps: !json }, output);
      await printer.print([JSON.stringify({ line: 0, t: 't', stream: 'stdout', text: evil })]);
      await printer.end();
    }
    output.note(eventText(event));
    output.note(refusalText({ detail: evil, errors: [evil] }) ?? '');
    const end = {
      at: 't',
      event: evil,
      msg: evil,
      worker_id: evil,
      cause: 'exit',
      exit_code: 1,
      error_message: evil,
    } as const;
    await output.write(explanationText({ ...explained, ended: end, workers: [] }, output));
    const shown = stripVTControlCharacters(out.text + err.text);
    // oxlint-disable-next-line no-control-regex -- these characters are what must be absent
    assert.doesNotMatch(shown, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/);
    assert.ok(!shown.split('\n').some((text) => text.startsWith('forged')), shown);
    assert.deepEqual(JSON.parse(out.text.split('\n')[0] ?? ''), { [evil]: evil });
  });

  test('has no colours and titles of a text from outside, except colours of a log', () => {
    const text =
      'The container ended. Its last log lines:\n\u001b[31mERROR\u001b[0m\u001b]0;title\u0007: disk';
    const end = { at: 't', event: 'FAILED', msg: '', worker_id: null, cause: null, exit_code: null } as const;
    const failed = { ...explained, ended: { ...end, error_message: text }, workers: [] };
    assert.ok(explanationText(failed, STYLE).endsWith('log lines:\n  ERROR: disk\n'));
    assert.equal(
      formatFields([['error', text]], false),
      'error  The container ended. Its last log lines: ERROR: disk\n',
    );
    const before = err.text.length;
    output.note(text);
    assert.equal(err.text.slice(before), 'The container ended. Its last log lines:\nERROR: disk\n');
    assert.match(eventText({ ...event, type: 'FAILED', payload: { error_message: text } }), / ERROR: disk$/);
  });
});

describe('the explanation of a failed run', () => {
  test('has cause and exit code, and ends with the error, line by line', () => {
    const summary = "FAILED by the event FAILED at 2026-01-02T03:04:05.678Z, last with worker 'w-1'.";
    const ended = {
      at: '2026-01-02T03:04:05.678Z',
      event: 'FAILED',
      msg: '',
      worker_id: 'w-1',
      cause: 'exit',
      exit_code: 4,
      error_message: 'The container ended with exit code 4. Its last log lines:\noops\n',
    } as const;
    const failed = {
      ...explained,
      state: 'FAILED',
      summary,
      strategy: 'direct',
      reason: null,
      queue: null,
      holder: null,
    } as const;
    assert.equal(
      explanationText({ ...failed, ended, workers: [] }, { columns: 80, colours: false }),
      `${summary}\n\nstate      FAILED\nattempt    1\nstrategy   direct\ncause      exit\nexit code  4\n\n` +
        '  The container ended with exit code 4. Its last log lines:\n  oops\n',
    );
  });
});

describe('the progress line', () => {
  const detail = 'attempt 1 of 3 on w-1';
  const progress = { title: 'RUNNING', colour: 'cyan', progress: 50, detail } as const;

  test('has a bar that is as full as the run is done', () => {
    assert.equal(
      progressLine(progress, 100, false),
      'RUNNING   ############............  50 %  attempt 1 of 3 on w-1',
    );
  });

  test('never wraps', () => {
    for (const columns of [1, 10, 30, 45, 60]) {
      const text = stripVTControlCharacters(progressLine(progress, columns, true));
      assert.equal(text.length, Math.min(columns - 1, 65), String(columns));
    }
  });
});

const codeOf = (status: number, body: unknown = { detail: 'no' }): number =>
  refusalOf(body, { status, headers: new Headers() }, 'http://host').exitCode;
const isForNow = (headers: Record<string, string>, body: unknown): boolean =>
  isRetryable(body, { status: 503, headers: new Headers(headers) });

describe('a refusal', () => {
  test('is one line with every error', () => {
    const body = { detail: 'Request validation failed', errors: ['a must be b', 'c must\nbe d'] };
    assert.equal(refusalText(body), 'Request validation failed: a must be b; c must be d');
  });

  test('ends with the code of its kind', () => {
    assert.deepEqual(
      [400, 404, 401, 403, 429].map((status) => codeOf(status)),
      [1, 1, 3, 3, 3],
    );
    assert.equal(codeOf(404, '<html>'), 3);
  });

  test('of a feature that is not configured is final, and one for now is not', () => {
    const body = { detail: 'Secrets are not configured' };
    assert.equal(isForNow({}, body), false);
    assert.equal(isForNow({ 'Retry-After': '1' }, body), true);
    assert.equal(isForNow({}, '<html>'), true);
  });
});

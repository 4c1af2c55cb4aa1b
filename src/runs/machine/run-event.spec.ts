import assert from 'node:assert/strict';
import { test } from 'vitest';
import { NO_TIMES } from './attempt.js';
import { readEvent, type ReportedEvent } from './run-event.js';

const REFUSED: readonly [string, ReportedEvent, string][] = [
  [
    'FAILED with an unknown cause',
    { type: 'FAILED', msg: '', payload: { cause: 'weather' } },
    'payload.cause must be one of: exit, oom, timeout, image, error, infrastructure',
  ],
  ...[-1, 256, 1.5, '1'].map((code): [string, ReportedEvent, string] => [
    `FAILED with the exit code ${JSON.stringify(code)}`,
    { type: 'FAILED', msg: '', payload: { exit_code: code } },
    'payload.exit_code must be an integer from 0 to 255',
  ]),
];

for (const [name, reported, problem] of REFUSED) {
  test(`refuses ${name}`, () => {
    assert.deepEqual(readEvent(reported), { problems: [problem] });
  });
}

test('reads cause and exit code of a failure', () => {
  for (const [cause, code] of [
    ['oom', 0],
    ['exit', 255],
  ]) {
    const read = readEvent({
      type: 'FAILED',
      msg: '',
      payload: { cause: cause ?? '', exit_code: code ?? '' },
    });
    assert.ok('effect' in read);
    assert.deepEqual(read.effect, {
      kind: 'FAILED',
      errorMessage: null,
      cause,
      exitCode: code,
      unable: null,
      times: NO_TIMES,
    });
  }
});

test('reads the times of a container to the millisecond, and refuses what is no time with a zone', () => {
  const times = { started_at: '2026-01-01T01:00:00.1239+01:00', finished_at: '2026-01-01T00:00:01Z' };
  const read = [
    readEvent({ type: 'STARTED', msg: '', payload: { worker_id: 'w', ...times } }),
    readEvent({ type: 'COMPLETED', msg: '', payload: times }),
    readEvent({ type: 'FAILED', msg: '', payload: { ...times, started_at: null } }),
  ];
  const startedAt = new Date('2026-01-01T00:00:00.123Z');
  const finishedAt = new Date('2026-01-01T00:00:01.000Z');
  const timesOf = read.map((one) => {
    assert.ok('effect' in one);
    const { effect } = one;
    return effect.kind === 'STARTED' ? effect.startedAt : 'times' in effect && effect.times;
  });
  assert.deepEqual(timesOf, [startedAt, { startedAt, finishedAt }, { startedAt: null, finishedAt }]);
  const payload = { worker_id: 'w', started_at: 'soon', finished_at: '2026-02-30T00:00:00Z' };
  const problemsOf = (type: string) => Reflect.get(readEvent({ type, msg: '', payload }), 'problems');
  const [start, end] = ['started_at', 'finished_at'].map(
    (name) => `payload.${name} must be an ISO 8601 date and time with a time zone, or UNIX seconds`,
  );
  assert.deepEqual(problemsOf('STARTED'), [start]);
  assert.deepEqual(problemsOf('COMPLETED'), [start, end]);
  assert.deepEqual(problemsOf('FAILED'), [start, end]);
  assert.ok('effect' in readEvent({ type: 'NOTE', msg: '', payload }), 'other types say what they like');
});

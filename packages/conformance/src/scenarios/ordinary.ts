import { EVENT_TYPES, TERMINAL_STATES } from '@longshore/client/constants';
import { isJsonObject } from '@longshore/common/json/json-value';
import { BEFORE_START, eventTypeOf, headerOf, inOrder, kindOf } from '../exchange.js';
import { check, checkCause, type Scenario } from '../scenario.js';
import { checkTimeline } from '../kit-runs.js';

const MAX_MESSAGE_BYTES = 4096;

/** Events that a program must not cause by printing. */
const NOT_FROM_LOGS = ['SUBMITTED', ...EVENT_TYPES.filter((type) => type !== 'PROGRESS')];
const BY_THE_LOG = 'by the log';

/** A place in a trace: `00-TRACE-SPAN-FLAGS`. */
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const TRACEPARENT = `00-${TRACE}-00f067aa0ba902b7-01`;

/** How long the answer to the first heartbeat takes, in milliseconds. */
const REGISTERING_MS = 400;

/** Runs without any fault around them. */
export const ORDINARY: readonly Scenario[] = [
  {
    name: 'completes',
    promise: 'inputs, template, outputs and trace are passed on; the program does not see the key',
    async run(context) {
      const { runs, traces } = context;
      await context.startWorker();
      const outputs = { text: 'grüße ✓', list: [1, { deep: null }] };
      const template = { upload: 'https://upload.example/1' };
      const program = { mark: 'completes', outputs };
      const id = await runs.create(program, { outputs: template }, TRACEPARENT);
      const run = await runs.untilState(id, 'COMPLETED');
      checkTimeline(run, '1 STARTED, 1 COMPLETED');
      const expected = JSON.stringify({ ...outputs, template });
      const got = sorted(run.outputs);
      check(got === sorted(JSON.parse(expected)), `the outputs should be ${expected} and are ${got}`);
      await context.checkStarts('completes', 1);
      const [start] = await traces.readStarts('completes');
      check(
        start?.hasKey === false,
        'the program saw the key (SERVICE_API_KEY) in its environment or arguments',
      );
      check(
        start.traceparent?.startsWith(`00-${TRACE}-`) === true,
        `the program should find the run's trace in TRACEPARENT, and found ${start.traceparent ?? 'nothing'}`,
      );
      await context.checkAnotherRun();
      const [other] = (await traces.starts()).filter(({ mark }) => mark !== 'completes');
      check(other?.traceparent === undefined, 'TRACEPARENT was given to a run that is not traced');
      await context.untilFolderGone('completes');
    },
  },
  {
    name: 'variables',
    promise: 'the program finds its run and attempt, the time of its schedule, and its place in an array',
    async run(context) {
      const { runs, traces } = context;
      await context.startWorker();
      const mark = 'variables';
      const id = await runs.create({ mark, exit: 3 }, { retry_policy: { max_attempts: 2 } });
      await runs.untilState(id, 'FAILED', 2);
      const starts = await traces.readStarts(mark);
      for (const [n, { env }] of starts.entries())
        checkVariables(env, {
          SERVICE_RUN_ID: id,
          SERVICE_RUN_ATTEMPT: String(n + 1),
          SERVICE_CPU: '1',
          SERVICE_RAM_MB: '0',
          SERVICE_SCHEDULED_FOR: undefined,
          SERVICE_ARRAY_INDEX: undefined,
          SERVICE_ARRAY_SIZE: undefined,
        });
      await context.checkStarts(mark, 2);
      for (const member of await runs.createScheduledArray({ mark: 'array' })) {
        const { array, schedule } = await runs.untilState(member, 'COMPLETED');
        const started = await traces.readStarts('array');
        const [start] = started.filter(({ env }) => env['SERVICE_RUN_ID'] === member);
        checkVariables(start?.env ?? {}, {
          SERVICE_SCHEDULED_FOR: schedule?.time,
          SERVICE_ARRAY_INDEX: String(array?.index),
          SERVICE_ARRAY_SIZE: String(array?.size),
        });
      }
    },
  },
  {
    name: 'fails',
    promise: 'exit code and bad outputs make a run FAILED with the reason; a retry is the next attempt',
    async run(context) {
      const { runs } = context;
      await context.startWorker();
      const program = { mark: 'fails', exit: 3, print: ['what went wrong'] };
      const id = await runs.create(program, { retry_policy: { max_attempts: 2 } });
      const run = await runs.untilState(id, 'FAILED', 2);
      checkTimeline(run, '1 STARTED, 1 FAILED, 1 RETRIED, 2 STARTED, 2 FAILED');
      const message = run.execution_summary.error_message ?? '';
      const isFine = message.includes('3') && message.includes('what went wrong');
      check(isFine, `error_message should hold exit code and last lines, and says "${message}"`);
      check(Buffer.byteLength(message) <= MAX_MESSAGE_BYTES, 'error_message is longer than 4 KiB');
      for (const report of context.reportsOf(id, 'FAILED')) checkCause(report, 'exit', 3);
      await context.checkStarts('fails', 2);
      const bad = await runs.create({ mark: 'fails-outputs', raw_output: '[1, 2' });
      const ended = await runs.untilState(bad, 'FAILED');
      check((ended.execution_summary.error_message ?? '') !== '', 'bad outputs: error_message is empty');
      for (const report of context.reportsOf(bad, 'FAILED')) checkCause(report, 'error');
      await context.checkAnotherRun();
      await context.untilFolderGone('fails');
    },
  },
  {
    name: 'log-events',
    promise: 'lines of the log become events in their order; none of them ends the run',
    async run(context) {
      const { runs } = context;
      await context.startWorker();
      const print = [
        'plain text',
        '{"type":"PROGRESS","msg":40}',
        ...NOT_FROM_LOGS.map((type) => JSON.stringify({ type, msg: BY_THE_LOG })),
        '{"type":"PROGRESS","msg":400}',
        '{"type":"CHECKPOINT","msg":"half","payload":{"step":2}}',
        '{"no":"event"}',
        '["neither"]',
        '{"type":"PROGRESS","msg":80}',
      ];
      const id = await runs.create({ mark: 'log-events', print, sleep_s: 0.2 });
      const run = await runs.until(id, 'has ended', ({ state }) => TERMINAL_STATES.has(state));
      const forwarded = context
        .reportsOf(id)
        .find(({ body }) => isJsonObject(body) && body['msg'] === BY_THE_LOG);
      check(
        forwarded === undefined,
        `a ${forwarded && eventTypeOf(forwarded)} that the program printed was reported`,
      );
      checkTimeline(run, '1 STARTED, 1 PROGRESS 40, 1 CHECKPOINT, 1 PROGRESS 80, 1 COMPLETED');
      const payload = JSON.stringify(run.events.find(({ type }) => type === 'CHECKPOINT')?.payload);
      check(payload === '{"step":2}', `the payload of CHECKPOINT is ${payload}`);
    },
  },
  {
    name: 'headers',
    promise: 'claims and reports carry their keys, reports both fencing headers, heartbeats the held run',
    async run(context) {
      const { runs, proxy } = context;
      // Shows whether a claim waits for the answer.
      const slow = { kind: 'hold', ms: REGISTERING_MS } as const;
      proxy.faults = { onAnswer: inOrder({ heartbeat: [slow] }) };
      await context.startWorker();
      const print = ['{"type":"PROGRESS","msg":10}', '{"type":"PROGRESS","msg":20}'];
      const program = { mark: 'headers', print, exit: 1 };
      const id = await runs.create(program, { retry_policy: { max_attempts: 2 } });
      await runs.untilState(id, 'FAILED', 2);
      const keys = new Set<string>();
      let reports = 0;
      for (const asked of proxy.exchanges) {
        const about = eventTypeOf(asked) ?? kindOf(asked);
        if (!['claim', 'event'].includes(kindOf(asked))) continue;
        const key = headerOf(asked, 'Idempotency-Key') ?? '';
        check(key !== '', `${about} was sent without an Idempotency-Key`);
        if (kindOf(asked) === 'claim') continue;
        check(!keys.has(key), `two events were sent under the key ${key}`);
        keys.add(key);
        const from = headerOf(asked, 'X-Worker-Id');
        check(from === context.workerId, `${about} was sent with X-Worker-Id ${from ?? '(none)'}`);
        const attempt = headerOf(asked, 'X-Run-Attempt');
        const expected = reports < 4 ? '1' : '2';
        check(attempt === expected, `${about} was sent with X-Run-Attempt ${attempt ?? '(none)'}`);
        if (!BEFORE_START.includes(about)) reports += 1;
      }
      check(reports === 8, `there should be 8 reports, and were ${reports}`);
    },
  },
];

/** A JSON value as text, whatever the order of its keys. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}

/** @throws RuleViolation unless the program found these variables, and not those without a value */
function checkVariables(
  found: Readonly<Record<string, string>>,
  expected: Readonly<Record<string, string | undefined>>,
): void {
  for (const [name, value] of Object.entries(expected))
    check(found[name] === value, `${name} should be ${value ?? 'absent'} and is ${found[name] ?? 'absent'}`);
}

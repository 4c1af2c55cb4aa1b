import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { TERMINAL_STATES, type Capability } from '@longshore/client/constants';
import { isJsonObject } from '@longshore/common/json/json-value';
import {
  claimedRuns,
  eventTypeOf,
  headerOf,
  inOrder,
  kindOf,
  payloadOf,
  runOf,
  type Exchange,
} from '../exchange.js';
import type { RequestFault } from '../fault-proxy.js';
import { describe, type ContainerExtras } from '../kit-runs.js';
import { check, checkCause, type Scenario } from '../scenario.js';
import type { ScenarioContext } from '../scenario-context.js';

/** Two values, one of which contains the other, and one of several lines. */
const VALUES = {
  KIT_SHORT: 'kit-secret-value',
  KIT_LONG: 'kit-secret-value-and-more',
  KIT_LINES: 'kit-first-line\n"kit" second\\line',
} as const;

/** Parts of the values that must not leave the program. */
const UNMASKED = ['kit-secret-value', '-and-more', 'kit-first-line', 'second\\', 'second\\\\'] as const;

/** A shell in the program's place, which then becomes it. */
const SHELL = ['/bin/sh', '-c', 'KIT_BY=command exec "$0" "$@"'];

/** Fields by the capability that they need. */
const FIELDS: Readonly<Record<Capability, ContainerExtras>> = {
  env: { env: { KIT_A: 'a' } },
  command: { args: ['a'] },
  secrets: { secrets: { KIT_A: 'kit-none' } },
  secrets_from: { secrets_from: [{ secret: 'kit-none' }] },
  files: { files: { '/etc/kit': { content: 'kit' } } },
  scratch: { mounts: [{ scratch_mb: 1, path: '/kit' }] },
  registry: { image_pull_secret: 'kit-none' },
  container: { workdir: '/' },
  'stop_grace:900': { stop_grace_s: 900 },
  'ulimit:nofile:1024': { ulimits: { nofile: 1024 } },
  'volume:kit-none': { mounts: [{ volume: 'kit-none', path: '/kit', read_only: true }] },
  'network:kit-none': { network: 'kit-none' },
  cpu_millis: { constraints: { cpu_millis: 500 } },
  gpus: { constraints: { gpus: 1 } },
  shm: { constraints: { shm_mb: 64 } },
  artifacts: { artifacts: { out: { kit: { path: '/tmp/kit', required: false } } } },
};

/** Runs that change something about their program. A worker passes those whose capability it does not announce. */
export const CONTAINERS: readonly Scenario[] = [
  {
    name: 'environment',
    promise: 'variables of a run reach its program, below those that the worker sets',
    async run(context) {
      await context.startWorker();
      if (!context.announces('env')) return;
      const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
      const env = { KIT_A: 'a=b "c" $HOME', KIT_EMPTY: '', TRACEPARENT: 'of the run' };
      const id = await context.runs.create({ mark: 'environment' }, { env }, traceparent);
      await context.runs.untilState(id, 'COMPLETED');
      const [start] = await context.traces.readStarts('environment');
      const found = JSON.stringify(start?.env);
      check(
        start?.env['KIT_A'] === env.KIT_A && start.env['KIT_EMPTY'] === '',
        `the program should find the variables of the run as they are, and found ${found}`,
      );
      check(start.traceparent !== env.TRACEPARENT, "the run's TRACEPARENT stood above that of the worker");
      await context.checkAnotherRun();
      const [other] = await context.traces.readStarts('environment-next');
      check(other?.env['KIT_A'] === undefined, 'a program found variables of another run');
    },
  },
  {
    name: 'command',
    promise: 'args replace the arguments of the program, command the program',
    async run(context) {
      const { runs, traces } = context;
      await context.startWorker();
      if (!context.announces('command')) return;
      const args = ['a b', '', '$HOME'];
      const given = await runs.create({ mark: 'args' }, { args });
      await runs.untilState(given, 'COMPLETED');
      const [start] = await traces.readStarts('args');
      const found = JSON.stringify(start?.args);
      check(found === JSON.stringify(args), `the arguments should be as they are, and are ${found}`);
      const command = [...SHELL, traces.command];
      const replaced = await runs.create({ mark: 'command' }, { command, args: ['x'] });
      await runs.untilState(replaced, 'COMPLETED');
      const [other] = await traces.readStarts('command');
      check(other?.env['KIT_BY'] === 'command', 'the program was started instead of the command of the run');
      check(
        other.args.join() === 'x',
        `the arguments of the command should be x, and are ${other.args.join()}`,
      );
    },
  },
  {
    name: 'secrets',
    promise: 'values of secrets are in the environment alone; log, events, messages and outputs show ***',
    async run(context) {
      const { runs, traces, proxy } = context;
      await context.startWorker();
      if (!context.announces('secrets')) return;
      const variables = Object.keys(VALUES);
      for (const [variable, value] of Object.entries(VALUES)) await runs.putSecret(secretOf(variable), value);
      const secrets = Object.fromEntries(variables.map((variable) => [variable, secretOf(variable)]));
      const program = { mark: 'secrets', print_env: variables, gate: 'secrets', exit: 3 };
      const id = await runs.create(program, { secrets });
      await context.untilProgramRuns('secrets');
      const [start] = await traces.readStarts('secrets');
      const isFound = Object.entries(VALUES).every(([variable, value]) => start?.env[variable] === value);
      check(isFound, `the program should find its secrets, and found ${JSON.stringify(start?.env)}`);
      await context.until('events of the program are reported', () => shown(context, id).length === 3);
      await checkNoFiles(context);
      await traces.openGate('secrets');
      await runs.untilState(id, 'FAILED');
      checkRequests(proxy.exchanges, id);
      const [first] = shown(context, id);
      check(
        isJsonObject(first?.body) && first.body['msg'] === '***',
        'a value in an event should be ***, and nothing else should change',
      );
      const done = { mark: 'secret-outputs', print_env: ['KIT_LONG'] };
      const other = await runs.create(done, { secrets: { KIT_LONG: secretOf('KIT_LONG') } });
      const { outputs } = await runs.untilState(other, 'COMPLETED');
      check(JSON.stringify(outputs) === '{"KIT_LONG":"***"}', 'a value in the outputs should be ***');
      checkUnseen(proxy.exchanges);
      const printed = await context.printed();
      check(
        UNMASKED.every((text) => !printed.includes(text)),
        "the worker's own log shows a secret",
      );
    },
  },
  {
    name: 'missing-secret',
    promise: 'a run whose secret or login does not exist is FAILED with its name, and not executed',
    async run(context) {
      await context.startWorker();
      const used: readonly (readonly [string, ContainerExtras])[] = [
        ['secrets', { secrets: { KIT_A: 'kit-missing' } }],
        ['secrets_from', { secrets_from: [{ secret: 'kit-missing' }] }],
        ['files', { files: { '/etc/kit': { secret: 'kit-missing' } } }],
        ['registry', { image_pull_secret: 'kit-missing' }],
      ];
      for (const [capability, extras] of used) {
        if (!context.announces(capability)) continue;
        const id = await context.runs.create({ mark: capability }, extras);
        const run = await context.runs.untilState(id, 'FAILED');
        const message = run.execution_summary.error_message ?? '';
        check(message.includes('kit-missing'), `error_message should name the secret, and says "${message}"`);
        for (const report of context.reportsOf(id, 'FAILED')) checkCause(report, 'error');
        await context.checkStarts(capability, 0);
      }
      await context.checkAnotherRun();
    },
  },
  {
    name: 'refused-secrets',
    promise: 'secrets without an answer are asked for again; a 409 ends the attempt without a report',
    async run(context) {
      const { runs, proxy } = context;
      await context.startWorker();
      if (!context.announces('secrets')) return;
      await runs.putSecret('kit-known', 'kit-known-value');
      const extras = { secrets: { KIT_A: 'kit-known' } };
      const unanswered: readonly RequestFault[] = [
        { kind: 'cut' },
        { kind: 'answer', status: 503, retryAfterS: 1 },
      ];
      proxy.faults = { onRequest: inOrder({ secrets: unanswered }) };
      const id = await runs.create({ mark: 'secrets-again' }, extras);
      await runs.untilState(id, 'COMPLETED');
      const tries = proxy.exchanges.filter((asked) => kindOf(asked) === 'secrets').length;
      check(tries === 3, `the secrets should be asked for 3 times, and were ${tries} times`);
      let refusedAtMs: number | null = null;
      proxy.faults = {
        onRequest: (asked) => {
          if (kindOf(asked) !== 'secrets') return null;
          refusedAtMs ??= asked.atMs;
          return { kind: 'answer', status: 409 };
        },
      };
      const lost = await runs.create({ mark: 'secrets-lost' }, extras);
      await context.until('the worker asks for the secrets', () => refusedAtMs !== null);
      await runs.cancel(lost);
      proxy.faults = {};
      await context.checkAnotherRun();
      context.checkNoReports(lost, refusedAtMs ?? 0, 'although the attempt was lost');
      await context.checkStarts('secrets-lost', 0);
    },
  },
  {
    name: 'capabilities',
    promise: 'a run that needs what the worker does not announce is not executed, not even if it gets it',
    async run(context) {
      const { runs, proxy } = context;
      await context.startWorker();
      for (const [capability, extras] of Object.entries(FIELDS)) {
        if (context.announces(capability)) continue;
        const id = await runs.create({ mark: capability }, extras);
        await context.checkAnotherRun();
        const run = await runs.get(id);
        check(run.state === 'PENDING', `a run that needs ${capability} should wait; ${describe(run)}`);
        await runs.cancel(id);
        // As from a service that knows no capabilities.
        proxy.faults = { onAnswer: (asked) => alteredClaim(asked, extras) };
        const given = await runs.create({ mark: `${capability}-given` });
        await context.until('the worker reports the end', () =>
          context.reportsOf(given).some((asked) => TERMINAL_STATES.has(eventTypeOf(asked) ?? '')),
        );
        proxy.faults = {};
        await context.checkStarts(`${capability}-given`, 0);
        for (const report of context.reportsOf(given, 'FAILED')) {
          check(payloadOf(report)['cause'] === 'infrastructure', 'the cause should be infrastructure');
        }
      }
    },
  },
];

function secretOf(variable: string): string {
  return variable.toLowerCase().replace('_', '-');
}

function shown(context: ScenarioContext, runId: string): Exchange[] {
  return context.reportsOf(runId, 'SHOWN');
}

/** Secrets are read once the run is claimed, with both fencing headers, and before its start. */
function checkRequests(exchanges: readonly Exchange[], runId: string): void {
  const ofRun = exchanges.filter((asked) => runOf(asked) === runId);
  const at = ofRun.findIndex((asked) => kindOf(asked) === 'secrets');
  const started = ofRun.findIndex((asked) => eventTypeOf(asked) === 'STARTED');
  check(at >= 0 && at < started, 'secrets should be read before STARTED');
  const { [at]: asked } = ofRun;
  const hasHeaders = asked !== undefined && headerOf(asked, 'X-Run-Attempt') === '1';
  check(
    hasHeaders && headerOf(asked, 'X-Worker-Id') !== undefined,
    'secrets were asked for without X-Worker-Id and X-Run-Attempt',
  );
}

/** No request of the worker shows a value. */
function checkUnseen(exchanges: readonly Exchange[]): void {
  for (const asked of exchanges) {
    const sent = `${asked.path} ${JSON.stringify([asked.body, asked.headers])}`;
    const about = eventTypeOf(asked) ?? `${asked.method} ${asked.path}`;
    check(!UNMASKED.some((text) => sent.includes(text)), `a secret was sent to the service: ${about}`);
  }
}

/** No file of the worker holds a value while the program runs. */
async function checkNoFiles({ workerFolders }: ScenarioContext): Promise<void> {
  for (const folder of workerFolders) {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
    for (const entry of entries.filter((found) => found.isFile())) {
      const text = await readFile(join(entry.parentPath, entry.name), 'utf8').catch(() => '');
      check(
        !UNMASKED.some((value) => text.includes(value)),
        `a file of the worker holds a secret: ${entry.name}`,
      );
    }
  }
}

/** A claim's answer whose only run has more fields. */
function alteredClaim(
  asked: Exchange,
  extras: ContainerExtras,
): { readonly kind: 'alter'; readonly body: unknown } | null {
  if (claimedRuns(asked).length !== 1 || !isJsonObject(asked.answer?.body)) return null;
  const { ops } = asked.answer.body;
  return {
    kind: 'alter',
    body: { ops: Array.isArray(ops) ? ops.map((op) => Object.assign({}, op, extras)) : [] },
  };
}

import assert from 'node:assert/strict';
import { test } from 'vitest';
import type { FakeRun } from '../fake-run.js';
import { DOWN, errorMessage, eventTypes, PLAIN } from '../fake-service.js';
import { makeHarness, type WorkerHarness } from '../worker-harness.js';

const VALUE = 'correct-horse-battery';
const LOGIN = { server: 'registry.test', username: 'bot', password: 'pull-password' };
const NEEDS_ALL = {
  ...PLAIN,
  env: { MODE: 'fast', SHARED: 'of the run' },
  command: ['tool'],
  args: ['--all'],
  secrets: { TOKEN: 'api-token' },
  image_pull_secret: 'registry-login',
};
const ONE_SECRET = { ...PLAIN, secrets: { TOKEN: 'api-token' } };

test('announces what its runtime can do', async () => {
  const harness = makeHarness({ capabilities: ['env'] });
  await harness.start();
  assert.deepEqual(harness.service.callsOf('heartbeat')[0]?.report?.capabilities, ['env']);
});

test('starts the container with environment, command, arguments and secrets, and pulls with the login', async () => {
  const harness = makeHarness();
  harness.service.secrets = { env: { TOKEN: VALUE }, files: {}, registry: LOGIN };
  const run = harness.service.add('run-1', { container: NEEDS_ALL });
  await harness.start();
  const container = await harness.container();
  const { env, command, args } = container.spec;
  assert.deepEqual(env, { MODE: 'fast', SHARED: 'of the run', TOKEN: VALUE });
  assert.deepEqual([command, args], [['tool'], ['--all']]);
  assert.deepEqual(harness.runtime.logins, [LOGIN]);
  const calls = harness.service.calls.filter(({ runId }) => runId === 'run-1');
  const order = calls.map(({ what, event }) => event?.type ?? what);
  assert.ok(order.indexOf('getSecrets') < order.indexOf('STARTED'), order.join());
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
});

test('gives the container the files of the run, their paths in variables, and masks the values of secrets in them', async () => {
  const harness = makeHarness();
  const key = JSON.stringify({ private_key: VALUE });
  harness.service.secrets = { env: {}, files: { '/run/key.json': key }, registry: null };
  const files = {
    '/etc/job/a': { content: 'text', mode: '0555', env: 'A' },
    '/run/key.json': { secret: 'key', env: 'KEY_FILE' },
  };
  const run = harness.service.add('run-1', { container: { ...PLAIN, env: { MODE: 'fast' }, files } });
  await harness.start();
  const container = await harness.container();
  assert.deepEqual(container.spec.files, [
    { path: '/etc/job/a', content: 'text', mode: 0o555, isSecret: false },
    { path: '/run/key.json', content: key, mode: 0o444, isSecret: true },
  ]);
  assert.deepEqual(container.spec.env, { MODE: 'fast', A: '/etc/job/a', KEY_FILE: '/run/key.json' });
  container.print(`text of ${VALUE}, ${key}`);
  container.writeOutputs(JSON.stringify({ key: VALUE }));
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  await harness.end();
  assert.deepEqual(harness.service.logs.texts('run-1').slice(0, 1), ['text of ***, ***']);
  assert.deepEqual(run.timeline.at(-1)?.payload?.['outputs_changed'], {
    masked: [{ path: '/key', key: false, secrets: ['/run/key.json'] }],
    replaced: 0,
  });
});

test('gives the container bytes as they are, and masks the base64 of those of secrets on one line and on several', async () => {
  const harness = makeHarness();
  const keystore = Buffer.from(Array.from({ length: 200 }, (_, index) => 255 - index));
  const withNul = Buffer.from('key\0hidden-text');
  harness.service.secrets = { env: {}, files: { '/k.p12': keystore, '/nul': withNul }, registry: null };
  const files = {
    '/bytes': { content_base64: '/wD+' },
    '/k.p12': { secret: 'keystore' },
    '/nul': { secret: 'nul' },
  };
  const run = harness.service.add('run-1', { container: { ...PLAIN, files } });
  await harness.start();
  const container = await harness.container();
  assert.deepEqual(
    container.spec.files.map(({ content, isSecret }) => [content, isSecret]),
    [
      [Buffer.from([0xff, 0, 0xfe]), false],
      [keystore, true],
      [withNul, true],
    ],
  );
  const base64 = keystore.toString('base64');
  const wrapped = base64.match(/.{1,76}/g) ?? [];
  container.print(`<${base64}>`, ...wrapped, `<${withNul.toString('base64')}>`, '/wD+ is no secret');
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  await harness.end();
  assert.deepEqual(harness.service.logs.texts('run-1').slice(0, 7), [
    '<***>',
    ...wrapped.map(() => '***'),
    '<***>',
    '/wD+ is no secret',
  ]);
});

test('fails a run whose file gets no value, before its container is created', async () => {
  const harness = makeHarness();
  const container = { ...PLAIN, files: { '/key': { secret: 'key' } } };
  const run = await harness.execute('FAILED', { container });
  assert.match(errorMessage(run), /gave no value for the file '\/key'/);
});

test('asks for no secrets for a run without them', async () => {
  const harness = makeHarness();
  const files = { '/a': { content: 'a' } };
  harness.service.add('run-1', { container: { ...NEEDS_ALL, secrets: {}, image_pull_secret: null, files } });
  await harness.start();
  await harness.container();
  assert.equal(harness.service.callsOf('getSecrets').length, 0);
});

test('shows no value in log, events, error message, outputs or its own log', async () => {
  const harness = makeHarness({ env: { SERVICE_LOG_LEVEL: 'debug' } });
  harness.service.secrets = { env: { TOKEN: VALUE, KEY: 'line one\nline two' }, files: {}, registry: LOGIN };
  const failing = harness.service.add('run-1', { container: ONE_SECRET });
  const completing = harness.service.add('run-2', { container: ONE_SECRET });
  await harness.start();
  const escaped = VALUE.replace('c', String.raw`\u0063`);
  const [first, second] = [await harness.container(0), await harness.container(1)];
  first.print(
    `token=${VALUE}.`,
    'line one',
    `{"type":"SEEN","msg":"${VALUE}","payload":{"${VALUE}":["${escaped}"]}}`,
    `{"type":"SEEN","msg":"line one\\nline two"}`,
  );
  first.end(1);
  second.writeOutputs(JSON.stringify({ found: [`<${VALUE}>`] }));
  second.end(0);
  await harness.untilState(failing, 'FAILED');
  await harness.untilState(completing, 'COMPLETED');
  await harness.end();
  const [seen, other] = failing.timeline.filter(({ type }) => type === 'SEEN');
  assert.deepEqual([seen?.msg, seen?.payload, other?.msg], ['***', { '***': ['***'] }, '***']);
  assert.match(errorMessage(failing), /token=\*\*\*\.\n\*\*\*$/);
  assert.deepEqual(harness.service.logs.texts('run-1').slice(0, 2), ['token=***.', '***']);
  assert.deepEqual(completing.timeline.at(-1)?.payload?.['outputs'], { found: ['<***>'] });
  const everything = JSON.stringify([harness.service.calls, harness.log]);
  for (const value of [VALUE, 'line one', 'line two']) assert.ok(!everything.includes(value), value);
});

test('hides a value in the error of the engine', async () => {
  const harness = makeHarness();
  harness.service.secrets = { env: { TOKEN: VALUE }, files: {}, registry: null };
  harness.runtime.onStart = () => {
    throw new Error(`cannot start with TOKEN=${VALUE}`);
  };
  const run = await harness.execute('FAILED', { container: ONE_SECRET });
  assert.equal(errorMessage(run), 'cannot start with TOKEN=***');
  await harness.end();
  assert.ok(!harness.log.join().includes(VALUE));
});

test('reports FAILED with the name of a secret that does not exist', async () => {
  const { harness, run } = await refusedSecrets(404, "Secret 'api-token' not found");
  await harness.untilState(run, 'FAILED');
  assertFailed(run, 'error', "The service refused the run's secrets (404): Secret 'api-token' not found");
  assert.equal(harness.service.callsOf('getSecrets').length, 1);
});

test('stops without a report when the service gives the secrets to another attempt', async () => {
  const { harness, run } = await refusedSecrets(409, "Run 'run-1' is not assigned to worker 'rack/7:a'");
  await harness.clock.pass(30_000);
  assert.deepEqual(run.timeline, []);
  assert.equal(harness.runtime.containers.length, 0);
  assert.equal(harness.service.callsOf('getSecrets').length, 1);
});

test('repeats the request for secrets through an outage and through processes without the route', async () => {
  const harness = makeHarness();
  const answers = [DOWN, { kind: 'refused', status: 404, detail: 'Cannot GET /runs/run-1/secrets' }] as const;
  let tries = 0;
  harness.service.onCall = ({ what }) => (what === 'getSecrets' ? answers[tries++] : undefined);
  harness.service.add('run-1', { container: ONE_SECRET });
  await harness.start();
  await harness.container();
  assert.equal(tries, 3);
});

test('reports FAILED when the service has no secrets for a minute, and starts nothing', async () => {
  const harness = makeHarness();
  harness.service.onCall = ({ what }) =>
    what === 'getSecrets'
      ? { kind: 'unreachable', reason: 'HTTP 503: Secrets are not configured' }
      : undefined;
  const run = harness.service.add('run-1', { container: ONE_SECRET });
  await harness.start();
  await harness.clock.pass(50_000);
  assert.equal(run.state, 'ASSIGNED');
  await harness.clock.pass(40_000);
  assertFailed(
    run,
    'error',
    "The service could not give the run's secrets: HTTP 503: Secrets are not configured",
  );
  assert.equal(harness.runtime.containers.length, 0);
});

test('does not execute a run that needs what its runtime lacks, and lets another worker have it', async () => {
  const harness = makeHarness({ capabilities: ['env'] });
  const run = await harness.execute('FAILED', { container: NEEDS_ALL });
  assertFailed(
    run,
    'infrastructure',
    'The run needs command, secrets, registry, which the runtime process of this worker does not support',
  );
  assert.deepEqual([harness.runtime.pulls, harness.service.callsOf('getSecrets')], [[], []]);
});

async function refusedSecrets(
  status: number,
  detail: string,
): Promise<{ harness: WorkerHarness; run: FakeRun }> {
  const harness = makeHarness();
  harness.service.onCall = ({ what }) =>
    what === 'getSecrets' ? { kind: 'refused', status, detail } : undefined;
  const run = harness.service.add('run-1', { container: ONE_SECRET });
  await harness.start();
  return { harness, run };
}

function assertFailed(run: FakeRun, cause: string, message: string): void {
  assert.deepEqual(eventTypes(run), ['FAILED']);
  assert.deepEqual(run.timeline[0]?.payload, { error_message: message, cause });
}

test('keeps events and outputs with numbers and literals that are values of secrets, and tells what it masked', async () => {
  const harness = makeHarness();
  harness.service.secrets = { env: { FLAG: 'true', YEAR: '2026' }, files: {}, registry: null };
  const run = harness.service.add('run-1', {
    container: { ...PLAIN, secrets: { FLAG: 'flag', YEAR: 'year' } },
  });
  await harness.start();
  const container = await harness.container();
  container.print('{"type":"NOTE","msg":2026,"payload":{"ok":true,"text":"in 2026","true":1,"2026":2}}');
  container.writeOutputs('{"ok":true,"year":2026,"title":"of 2026"}');
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  assert.deepEqual(eventTypes(run), ['STARTED', 'NOTE', 'COMPLETED']);
  const [, note, completed] = run.timeline;
  assert.equal(note?.msg, 2026);
  assert.deepEqual({ ...note?.payload }, { ok: true, text: 'in ***', '***': 1, '***-2': 2 });
  assert.equal(
    completed?.msg,
    'The container ended with exit code 0. The outputs were changed: the secret of YEAR is masked in /title',
  );
  assert.deepEqual(completed.payload, {
    outputs: { ok: true, year: 2026, title: 'of ***' },
    outputs_changed: { masked: [{ path: '/title', key: false, secrets: ['YEAR'] }], replaced: 0 },
  });
});

test('tells briefly that outputs were changed when the service does not take more than the outputs', async () => {
  const harness = makeHarness();
  harness.service.secrets = { env: { YEAR: '2026' }, files: {}, registry: null };
  harness.service.onCall = ({ event }) =>
    event?.type === 'COMPLETED' && JSON.stringify(event).length > 170
      ? { kind: 'refused', status: 413, detail: 'too large' }
      : undefined;
  const run = harness.service.add('run-1', { container: { ...PLAIN, secrets: { YEAR: 'year' } } });
  await harness.start();
  const container = await harness.container();
  container.writeOutputs('{"title":"of 2026"}');
  container.end(0);
  await harness.untilState(run, 'COMPLETED');
  const { msg, payload } = run.timeline.at(-1) ?? {};
  assert.equal(msg, 'The container ended with exit code 0. The outputs were changed');
  assert.deepEqual(payload, { outputs: { title: 'of ***' }, outputs_changed: {} });
});

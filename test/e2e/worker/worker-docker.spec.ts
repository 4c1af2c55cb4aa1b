import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { SLOW_LINE } from '../../../packages/worker/src/runtime/docker/container/container-output.js';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { startDockerWorker } from '../../support/images/docker-runtime.js';
import {
  makeDataDir,
  startService,
  until,
  type ServiceProcess,
  type TestProcess,
} from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const KEYS = { SERVICE_API_KEYS: 'admin:e2e-admin-key-of-the-tests,worker:e2e-worker-key-of-the-tests' };

/** Without those of a preparation that takes a while, as on a busy machine. */
// oxlint-disable-next-line typescript/no-explicit-any -- a run as it comes
const typesOf = (run: any): string[] =>
  run.events.map(({ type }: { type: string }) => type).filter((type: string) => type !== 'PREPARING');

const forTests = await startTestEngine();

describe('a worker with a container engine', skipFor(forTests.skip), () => {
  let service: ServiceProcess;
  let worker: TestProcess;
  let send: Send;
  let tmp: string;

  const startWorker = (): Promise<TestProcess> =>
    startDockerWorker(
      forTests.engine.host,
      { url: service.url, key: 'e2e-worker-key-of-the-tests', id: 'e2e.worker:1' },
      tmp,
    );

  beforeAll(async () => {
    tmp = await makeDataDir();
    service = await startService({ env: KEYS });
    send = senderTo(service.url, 'e2e-admin-key-of-the-tests');
    worker = await startWorker();
  });

  afterAll(async () => {
    worker.signal('SIGTERM');
    assert.deepEqual(await worker.exited, { code: 0, signal: null }, worker.output);
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  afterEach(async () => {
    await until(async () => (await forTests.engine.containerIds()).length === 0, 'no container is left');
    const left = readdirSync(tmp).filter((name) => name.startsWith('longshore-'));
    assert.deepEqual(left, [], 'the worker keeps nothing of a run on the host');
  });

  // oxlint-disable-next-line typescript/no-explicit-any -- a run as it comes
  const create = async (body: Record<string, unknown>): Promise<any> => {
    const created = await send('POST', '/runs', { body });
    assert.equal(created.status, 201, created.text);
    return created.body;
  };

  // oxlint-disable-next-line typescript/no-explicit-any -- a run as it comes
  const untilState = async (id: string, ...states: string[]): Promise<any> => {
    await until(
      async () => {
        const { body } = await send('GET', `/runs/${id}?include_events=false`);
        return states.includes(body.state);
      },
      `run ${id} is ${states.join(' or ')}`,
    );
    return (await send('GET', `/runs/${id}`)).body;
  };

  /** Of the complete log of a run, of which nothing is left out; and how many lines it has. */
  async function lastLine(id: string): Promise<{ text: string; lines: number }> {
    const read = () => send('GET', `/runs/${id}/logs?tail=1`);
    const isComplete = async () => (await read()).headers.get('X-Log-Complete') === 'true';
    await until(isComplete, 'the log is complete');
    const { text, headers } = await read();
    assert.equal(headers.get('X-Log-Lines-Left-Out'), '0');
    return { text: JSON.parse(text).text, lines: Number(headers.get('X-Log-Lines')) };
  }

  test('pulls an image that only the registry has, runs it, and reports its outputs', async () => {
    const image = await forTests.engine.publishExample('word-count');
    const { id } = await create({ image, inputs: { text: 'to be or not to be' } });
    const run = await untilState(id, 'COMPLETED', 'FAILED');
    assert.deepEqual([run.state, run.outputs.words], ['COMPLETED', 6], JSON.stringify(run));
    assert.deepEqual(typesOf(run), ['STARTED', 'COMPLETED']);
    assert.equal(run.execution_summary.worker_id, 'e2e.worker:1');
    assert.equal(run.progress, 100);
  });

  test('tells the container where in a trace the run belongs, if it does', async () => {
    const show = `printf '{"parent":"%s","state":"%s"}' "$TRACEPARENT" "$TRACESTATE" >"$SERVICE_OUTPUT_PATH"`;
    const image = await forTests.engine.publishScript('shows-trace', show);
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const headers = { traceparent, tracestate: 'vendor=7' };
    const traced = await send('POST', '/runs', { body: { image }, headers });
    const { outputs } = await untilState(traced.body.id, 'COMPLETED', 'FAILED');
    assert.deepEqual(outputs, { parent: traceparent, state: 'vendor=7' });
    const untraced = await untilState((await create({ image })).id, 'COMPLETED', 'FAILED');
    assert.deepEqual(untraced.outputs, { parent: '', state: '' });
  });

  test('turns log lines into events, in order, while the container works', async () => {
    const image = await forTests.engine.publishExample('progress');
    const { id } = await create({ image, inputs: { steps: 4, seconds: 0.4 } });
    const run = await untilState(id, 'COMPLETED', 'FAILED');
    assert.deepEqual(typesOf(run), ['STARTED', 'PROGRESS', 'PROGRESS', 'PROGRESS', 'PROGRESS', 'COMPLETED']);
    assert.deepEqual(
      run.events.slice(1, 5).map(({ msg }: { msg: number }) => msg),
      [25, 50, 75, 100],
    );
  });

  test('keeps the log of a container, each stream in its order', async () => {
    const image = await forTests.engine.publishScript(
      'prints',
      'echo one; echo two >&2; printf three; exit 1',
    );
    const { id } = await create({ image });
    await untilState(id, 'FAILED');
    const { status, text, headers } = await send('GET', `/runs/${id}/logs`);
    assert.equal(status, 200, text);
    assert.equal(headers.get('X-Log-Complete'), 'true');
    const lines = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      lines.map(({ line }) => line),
      [0, 1, 2],
    );
    const printedTo = (wanted: string): string[] =>
      lines.flatMap(({ stream, text: printed }) => (stream === wanted ? [printed] : []));
    assert.deepEqual([printedTo('stdout'), printedTo('stderr')], [['one', 'three'], ['two']]);
  });

  test('keeps all of 200,000 lines that a container prints as fast as it can', async () => {
    const image = await forTests.engine.publishScript(
      'quick-lines',
      `awk 'BEGIN { for (i = 0; i < 200000; i++) print "a line of an example " i }'`,
    );
    const { id } = await create({ image });
    assert.deepEqual(typesOf(await untilState(id, 'COMPLETED', 'FAILED')), ['STARTED', 'COMPLETED']);
    const last = await lastLine(id);
    // A machine may be so busy that the engine drops the end.
    if (last.text !== SLOW_LINE)
      assert.deepEqual(last, { text: 'a line of an example 199999', lines: 200_000 });
  });

  test('says of a log that it may lack its end, or has all of it, whatever a container printed while the worker had no turn', async () => {
    const images = new Map<number, string>();
    // Around what the engine, its connection and the pipes of a container hold: more would make the container wait.
    for (const lines of [43_000, 44_000, 45_000]) {
      const print = `awk 'BEGIN { for (i = 0; i < ${lines}; i++) printf "a line of an example %06d\\n", i }'`;
      images.set(lines, await forTests.engine.publishScript(`prints-${lines}`, `sleep 2; ${print}`));
    }
    for (const [lines, image] of images) {
      const { id } = await create({ image });
      await until(async () => (await forTests.engine.docker.listContainers()).length === 1, 'it runs');
      worker.signal('SIGSTOP');
      await sleep(6_000);
      worker.signal('SIGCONT');
      assert.equal((await untilState(id, 'COMPLETED', 'FAILED')).state, 'COMPLETED');
      const last = await lastLine(id);
      if (last.text !== SLOW_LINE)
        assert.deepEqual(last, { text: `a line of an example ${String(lines - 1).padStart(6, '0')}`, lines });
    }
  });

  test('pre-writes the outputs template, and refuses outputs that are no JSON object', async () => {
    const image = await forTests.engine.publishScript('keeps-template', 'cat "$SERVICE_OUTPUT_PATH"');
    const template = { url: 'https://example.test/upload', n: 0 };
    const kept = await create({ image, outputs: template });
    assert.deepEqual((await untilState(kept.id, 'COMPLETED', 'FAILED')).outputs, template);
    const broken = await forTests.engine.publishScript(
      'broken-outputs',
      'echo "[1]" > "$SERVICE_OUTPUT_PATH"',
    );
    const { id } = await create({ image: broken });
    const run = await untilState(id, 'COMPLETED', 'FAILED');
    assert.equal(run.state, 'FAILED');
    assert.match(run.execution_summary.error_message, /output/i);
  });

  for (const [what, file, why] of [
    ['no bit to execute it', { content: '#!/bin/sh\n' }, 'has the mode 0444, without a bit to execute it'],
    ['CR LF behind its first line', { content: '#!/bin/sh\r\n', mode: '0555' }, 'has CR LF at the end'],
  ] as const)
    test(`says of a file of the run that its command names why it is not executed: ${what}`, async () => {
      const image = await forTests.engine.publishScript('executes-file', 'exit 0');
      for (const command of [['/job/run.sh'], ['sh', '-c', '/job/run.sh a']]) {
        const { id } = await create({ image, command, files: { '/job/run.sh': file } });
        const { state, execution_summary: summary } = await untilState(id, 'FAILED', 'COMPLETED');
        assert.equal(state, 'FAILED');
        assert.ok(summary.error_message.includes(`'/job/run.sh' of the run ${why}`), summary.error_message);
      }
    });

  for (const [name, change] of [
    ['volume-proc', 'VOLUME /proc'],
    ['volume-file', 'VOLUME /program'],
    ['volume-output', 'VOLUME /longshore/output.json'],
    ['user', 'USER nosuch'],
    ['workdir', 'WORKDIR /program'],
  ] as const) {
    test(`fails a run whose image the engine cannot set up, once, and executes other runs: ${change}`, async () => {
      const { id } = await create({ image: await changedImage(name, change) });
      const { state, execution_summary: summary, ...run } = await untilState(id, 'FAILED', 'COMPLETED');
      assert.deepEqual(
        [state, summary.cause, summary.reclaims, run.current_attempt],
        ['FAILED', 'error', undefined, 1],
        summary.error_message,
      );
      assert.doesNotMatch(worker.output, /no claims until/);
      const next = await create({ image: await forTests.engine.publishScript('fine', 'true') });
      assert.equal((await untilState(next.id, 'COMPLETED', 'FAILED')).state, 'COMPLETED');
    });
  }

  test('fails a run whose program makes its output file unreadable, and executes other runs', async () => {
    const image = await forTests.engine.publishScript(
      'unreadable',
      'rm "$SERVICE_OUTPUT_PATH"; ln -s "$SERVICE_OUTPUT_PATH" "$SERVICE_OUTPUT_PATH"',
    );
    const { id } = await create({ image });
    const { state, execution_summary: summary } = await untilState(id, 'FAILED', 'COMPLETED');
    assert.deepEqual([state, summary.cause], ['FAILED', 'error'], JSON.stringify(summary));
    const next = await create({ image: await forTests.engine.publishScript('fine', 'true') });
    assert.equal((await untilState(next.id, 'COMPLETED', 'FAILED')).state, 'COMPLETED');
  });

  test('executes a run again that a restart of the engine ended, at no cost of its retries', async () => {
    const script = `trap 'exit 0' TERM; i=0; while [ $i -lt 20 ]; do sleep 0.2; i=$((i+1)); done; echo '{"whole":true}' >"$SERVICE_OUTPUT_PATH"`;
    const image = await forTests.engine.publishScript('whole', script);
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      const { id } = await create({ image });
      await until(
        async () => (await forTests.engine.docker.listContainers()).length === 1,
        'the container runs',
      );
      await untilState(id, 'RUNNING');
      await forTests.engine.restartEngine(signal);
      const {
        state,
        outputs,
        current_attempt: attempt,
        events,
      } = await untilState(id, 'COMPLETED', 'FAILED');
      assert.deepEqual([state, outputs, attempt], ['COMPLETED', { whole: true }, 2], JSON.stringify(events));
      const [failed] = events.filter(({ type }: { type: string }) => type === 'FAILED');
      assert.equal(failed.payload.cause, 'infrastructure');
    }
  });
});

/** An image of which no container can be made, in the engine alone: builds of it fail, too. */
async function changedImage(name: string, changes: string): Promise<string> {
  const { docker, registry } = forTests.engine;
  const Image = await forTests.engine.buildScript('unchanged', 'true');
  const container = await docker.createContainer({ Image });
  const repo = `${registry}/examples/unusable-${name}`;
  await container.commit({ repo, tag: 'latest', changes });
  await container.remove();
  return `${repo}:latest`;
}

import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { containerSpec, QUICK_TIMING, runtimeOn, until } from '../../testing/container-spec.js';
import { FakeDockerEngine } from '../../testing/fake-docker-engine.js';
import { frame, logs, reports, type Answer } from '../../testing/fake-engine-answers.js';
import type { AdoptedContainer, Adoption, ContainerSpec, LogLine } from '../runtime.js';
import { GAP_LINE } from './container/container-output.js';
import type { DockerRuntime } from './docker.runtime.js';

const LOGS = 'GET /containers/ID/logs';
const EVENTS = 'GET /events';
const INFO = { Plugins: { Log: ['local'] }, NCPU: 4, SystemTime: '2026-11-26T00:00:00Z' };
const NOTHING_KNOWN: Adoption = { mounts: [], folders: [], secretFiles: [] };

/** A time of the container's log, after that of the cursors of these tests. */
const at = (second: number): string => `2099-01-01T00:00:0${second}.000000000Z`;

describe('a container that an earlier process has started', () => {
  const engine = FakeDockerEngine.forEachTest();
  const runtime = (): DockerRuntime => runtimeOn(engine, { timing: { ...QUICK_TIMING, retryMs: 20 } });

  /** Starts a container, and forgets it. @returns the first lines that it printed there */
  async function left(
    printed = '',
    spec: Partial<ContainerSpec> = {},
  ): Promise<{ cursor: string; lines: LogLine[] }> {
    engine.info = INFO;
    const container = await runtime().start({ ...containerSpec('tool'), ...spec });
    const lines: LogLine[] = [];
    const reading = (async () => {
      for await (const line of container.lines) lines.push(line);
    })();
    reading.catch(() => undefined);
    if (printed !== '') {
      engine.send(frame(1, printed));
      await until(() => lines.length === printed.split('\n').length - 1);
    }
    const end = lines.at(-1)?.bytes?.end ?? 0;
    return { lines, cursor: container.kept?.cursors.write({ stdout: end, stderr: 0 }, Date.now()) ?? '' };
  }

  async function adopted(adoption: Adoption = NOTHING_KNOWN): Promise<AdoptedContainer> {
    const next = runtime();
    const [found] = await next.findLeft();
    assert.ok(found);
    return next.adopt(found, adoption);
  }

  /** What it prints after its adoption, and until it ends. */
  async function rest({ container }: AdoptedContainer, ...answers: Answer[]): Promise<LogLine[]> {
    engine.answerNext(LOGS, ...answers, ...Array.from({ length: 20 }, () => answers.at(-1) ?? logs()));
    const lines: LogLine[] = [];
    engine.end(0);
    for await (const line of container.lines) lines.push(line);
    return lines;
  }

  it('is found when it was started under the lock of this worker, and not when it was only created', async () => {
    const spec = containerSpec('tool');
    await runtime().start(spec);
    const [known] = await runtime().findLeft();
    assert.deepEqual(known, { runId: spec.runId, attempt: 1, id: engine.container().id, isOwn: true });
    assert.equal((await runtimeOn(engine, { instance: '00000000' }).findLeft())[0]?.isOwn, false);
    engine.end(0);
    assert.equal((await runtime().findLeft()).length, 1);
    engine.answerNext('POST /containers/ID/start', () => undefined);
    const starting = runtimeOn(engine, { workerId: 'w-2' }).start(containerSpec('tool'));
    starting.catch(() => undefined);
    await until(() => engine.containers.size === 2);
    assert.deepEqual(await runtimeOn(engine, { workerId: 'w-2' }).findLeft(), []);
  });

  it('is not removed as a leftover once it is adopted, and is when it is not', async () => {
    await left();
    const next = runtime();
    const [found] = await next.findLeft();
    assert.ok(found);
    void next.adopt(found, NOTHING_KNOWN);
    assert.equal(await next.removeLeftovers(), 0);
    assert.equal(await runtime().removeLeftovers(), 1);
  });

  it('gives the values of secrets that it was created with, and no value in a label', async () => {
    await left('', {
      env: { A: 'plain', TOKEN: 'secret=1', MAP_X: 'secret-2' },
      secretNames: ['TOKEN', 'MAP_X'],
    });
    assert.deepEqual((await adopted()).secrets, { TOKEN: 'secret=1', MAP_X: 'secret-2' });
    const { Labels } = engine.container().create;
    assert.equal(Labels['longshore.secrets'], 'TOKEN,MAP_X');
    assert.doesNotMatch(JSON.stringify(Labels), /secret=1|secret-2/);
  });

  it('goes on in the log of the engine, with a cut where the earlier process ended, also within a line', async () => {
    const { cursor } = await left('one\n');
    const stopped = await adopted({ ...NOTHING_KNOWN, cursor });
    assert.deepEqual(stopped.stored, { stdout: 4, stderr: 0 });
    const [digestOfOne] = cursor.split('.').slice(1, 2);
    assert.match(cursor, new RegExp(`^4\\.${digestOfOne}\\.0\\.`));
    const log = logs([at(1), 1, 'one\n'], [at(2), 2, 'warning\n'], [at(3), 1, 'two\n']);
    assert.deepEqual(await rest(stopped, log), [
      { stream: 'stdout', text: 'one', bytes: { line: 0, end: 4 } },
      { stream: 'stderr', text: 'warning', bytes: { line: 0, end: 8 } },
      { stream: 'stdout', text: 'two', bytes: { line: 4, end: 8 } },
    ]);
  });

  it('has a gap and then what is newer when the log of the engine lacks its beginning', async () => {
    const { cursor } = await left('one\ntwo\n');
    const old = '2001-01-01T00:00:00.000000000Z';
    const log = logs([old, 1, 'nine\n'], [old, 1, 'ten\n'], [at(1), 1, 'eleven\n']);
    assert.deepEqual(await rest(await adopted({ ...NOTHING_KNOWN, cursor }), log), [
      { stream: 'stderr', text: GAP_LINE },
      { stream: 'stdout', text: 'eleven', bytes: { line: 8, end: 15 } },
    ]);
  });

  describe('and that ended while no process was there', () => {
    const finishedAt = '2026-11-25T23:00:00Z';

    async function ended(exitCode: number, ...events: Answer[]): Promise<AdoptedContainer> {
      await left();
      engine.container().state = {
        Running: false,
        ExitCode: exitCode,
        OOMKilled: false,
        StartedAt: '2026-11-25T22:00:00Z',
        FinishedAt: finishedAt,
      };
      engine.cutConnections();
      engine.answerNext(EVENTS, ...events, ...events, ...events);
      return adopted();
    }

    it('has its exit code and the times of the engine', async () => {
      const { container } = await ended(3, reports({ Action: 'start' }, { Action: 'die' }));
      assert.deepEqual(await container.exit, { exitCode: 3, outOfMemory: false });
      assert.equal(container.times().finishedAt, '2026-11-25T23:00:00.000Z');
    });

    it('did not end by itself when the engine was stopped, whose events begin later', async () => {
      const { container } = await ended(0, reports());
      await assert.rejects(container.exit, /^EngineFault: The container engine stopped while/);
    });

    it('ended by itself, unless by a signal, when the engine has had too many events since to tell', async () => {
      const time = Date.parse(finishedAt) / 1000 + 60;
      const others = Array.from({ length: 256 }, () => ({ Action: 'die', time }));
      const many: Answer = (response, call, goOn) =>
        (call.query['filters'] === undefined ? reports(...others) : reports())(response, call, goOn);
      assert.equal((await (await ended(1, many)).container.exit).exitCode, 1);
      engine.containers.clear();
      await assert.rejects((await ended(143, many)).container.exit, /container engine stopped/);
    });
  });
});

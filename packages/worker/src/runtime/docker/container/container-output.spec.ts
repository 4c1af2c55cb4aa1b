import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, it } from 'vitest';
import { QUICK_TIMING, containerSpec, readToEnd, runtimeOn, until } from '../../../testing/container-spec.js';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';
import { cut, frame, logs, refuse, reports, type Answer } from '../../../testing/fake-engine-answers.js';
import { GAP_LINE, RESTART_LINE, SLOW_LINE } from './container-output.js';
import type { RunningContainer } from '../../runtime.js';

const LOGS = 'GET /containers/ID/logs';
const TIMING = { ...QUICK_TIMING, retryMs: 50 };

/** A time of the container's log. */
function at(seconds: number, nanoseconds = 0): string {
  const second = new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString().slice(0, 19);
  return `${second}.${String(nanoseconds).padStart(9, '0')}Z`;
}

describe('the output of a container whose connection breaks', () => {
  const engine = FakeDockerEngine.forEachTest();
  let container: RunningContainer;

  beforeEach(async () => {
    container = await runtimeOn(engine, { timing: TIMING }).start(containerSpec('tool'));
    await until(() => engine.routes().includes('POST /containers/ID/wait'));
  });

  /** Breaks the connection after this output, and lets the container end while the log is read. */
  async function readBroken(sent: Buffer, ...answers: Answer[]): Promise<string[]> {
    const texts: string[] = [];
    const reading = (async () => {
      for await (const { text } of container.lines) texts.push(text);
    })();
    engine.send(sent);
    const last = answers.at(-1) ?? cut;
    engine.answerNext(LOGS, ...answers, ...Array.from({ length: 20 }, () => last));
    // Otherwise the fake could end the connection before the worker has read it.
    await until(() => texts.length > 0);
    engine.cutConnections();
    await until(() => engine.routes().filter((route) => route === LOGS).length >= answers.length);
    engine.end(0);
    await reading;
    return texts;
  }

  it('goes on in the log of the engine without doubling or losing a line, also within one', async () => {
    const log = logs(
      [at(1), 1, 'one\n'],
      [at(1, 5), 2, 'warning\n'],
      [at(2), 1, 'two and more\n'],
      [at(3), 2, 'last warning\n'],
      [at(3, 1), 1, 'end'],
    );
    const sent = Buffer.concat([frame(1, 'one\ntwo '), frame(2, 'warning\n')]);
    assert.deepEqual(await readBroken(sent, log, log), [
      'one',
      'warning',
      'two and more',
      'last warning',
      'end',
    ]);
    const [, query] = engine.calls.filter(({ route }) => route === LOGS).map((call) => call.query);
    assert.deepEqual(
      { ...query },
      {
        follow: 'true',
        stdout: 'true',
        stderr: 'true',
        timestamps: 'true',
        since: String(Date.parse(at(1)) / 1000),
      },
    );
  });

  it('goes on again when the connection to the log breaks as well', async () => {
    const first: Answer = (response) => {
      response.writeHead(200).write(frame(1, `${at(1)} one\n`));
      response.write(frame(1, `${at(2)} two\n`));
      setTimeout(() => response.destroy(), 50);
    };
    const rest = logs([at(1), 1, 'one\n'], [at(2), 1, 'two\n'], [at(30), 1, 'three\n']);
    const again = logs([at(2), 1, 'two\n'], [at(30), 1, 'three\n'], [at(31), 2, 'four\n']);
    assert.deepEqual(await readBroken(frame(1, 'one\n'), cut, first, rest, again), [
      'one',
      'two',
      'three',
      'four',
    ]);
  });

  it('has the order of each stream, whatever the order of both in the log', async () => {
    const log = logs(
      [at(1), 1, 'one\n'],
      [at(1, 1), 1, 'two\n'],
      [at(2), 2, 'warning\n'],
      [at(3), 2, 'end\n'],
    );
    const sent = Buffer.concat([frame(2, 'warning\n'), frame(1, 'one\n')]);
    assert.deepEqual(await readBroken(sent, log, log, log), ['warning', 'one', 'two', 'end']);
  });

  it('marks a gap when the log of the engine does not go back to where it was', async () => {
    const now = new Date(Date.now() + 60_000).toISOString().replace('Z', '000000Z');
    const log = logs([at(5), 1, 'much later\n'], [now, 1, 'end\n']);
    assert.deepEqual(await readBroken(frame(1, 'one\n'), log, log), ['one', GAP_LINE, 'end']);
  });

  it('marks a gap when the engine has no log', async () => {
    const none = refuse(500, 'configured logging driver does not support reading');
    assert.deepEqual(await readBroken(frame(1, 'one\n'), none), ['one', GAP_LINE]);
  });

  it('says that lines may be missing when the engine was restarted, also when the container ended by itself', async () => {
    for (const events of [[{ Action: 'die' }], [{ Action: 'kill' }, { Action: 'die' }]]) {
      const log = logs([at(1), 1, 'one\n'], [at(2), 1, 'two\n']);
      engine.answerNext('POST /containers/ID/wait', cut);
      engine.answerNext('GET /containers/ID/json', cut);
      engine.answerNext('GET /events', reports(...events));
      engine.container().state = { Running: false, ExitCode: 0, OOMKilled: false };
      assert.deepEqual(await readBroken(frame(1, 'one\n'), log), ['one', 'two', RESTART_LINE]);
      await container.remove();
      container = await runtimeOn(engine, { timing: TIMING }).start(containerSpec('tool'));
      await until(() => engine.routes().at(-1) === 'POST /containers/ID/wait');
    }
  });

  it('has the last lines when the connection breaks just before the container ends', async () => {
    const log = logs([at(1), 1, 'one\n'], [at(2), 1, 'two\n']);
    // It may ask again before it learns of the end.
    engine.answerNext(LOGS, ...Array.from({ length: 100 }, () => log));
    engine.send(frame(1, 'one\n'));
    const lines = container.lines[Symbol.asyncIterator]();
    await lines.next();
    engine.answerNext('GET /events', reports({ Action: 'start' }, { Action: 'die' }));
    engine.cutConnections();
    engine.end(0);
    assert.equal((await lines.next()).value?.text, 'two');
    assert.equal((await lines.next()).done, true);
  });

  it('has neither a gap nor a line twice when the connection ends with the container', async () => {
    engine.send(frame(1, 'one\nrest'));
    engine.end(3);
    const { lines } = await readToEnd(container);
    // On a busy machine, what is there of the second line may come before its end.
    const texts = lines.flatMap(({ text, part }) => (part === 'end' && text === '' ? [] : [text]));
    assert.deepEqual(texts, ['one', 'rest']);
  });
});

describe('the output of a container of an engine that keeps no log of it, such as Podman', () => {
  const engine = FakeDockerEngine.forEachTest();
  let container: RunningContainer;

  beforeEach(async () => {
    engine.info = { Plugins: { Log: ['k8s-file', 'none', 'passthrough', 'journald'] } };
    container = await runtimeOn(engine, { timing: TIMING }).start(containerSpec('tool'));
    await until(() => engine.routes().includes('POST /containers/ID/wait'));
  });

  it('ends with the container, also when the engine tells its end later, and its log is not asked for', async () => {
    engine.send(frame(1, 'one\n'));
    engine.endOutput();
    const reading = readToEnd(container);
    await sleep(4 * TIMING.retryMs);
    engine.end(3);
    const { lines, exit } = await reading;
    assert.deepEqual([lines.map(({ text }) => text), exit.exitCode], [['one'], 3]);
    assert.ok(!engine.routes().includes(LOGS));
  });

  it('has a gap when the connection breaks, and its log is not asked for', async () => {
    const lines = container.lines[Symbol.asyncIterator]();
    engine.send(frame(1, 'one\n'));
    assert.equal((await lines.next()).value?.text, 'one');
    engine.cutConnections();
    const gap = lines.next();
    engine.end(0);
    assert.equal((await gap).value?.text, GAP_LINE);
    assert.equal((await lines.next()).done, true);
    assert.ok(!engine.routes().includes(LOGS));
  });
});

describe('the output of a container whose end the engine tells late', () => {
  const engine = FakeDockerEngine.forEachTest();

  /** @param toldMs after the end of the container */
  async function readLate(toldMs: number): Promise<string[]> {
    const container = await runtimeOn(engine, { timing: TIMING }).start(containerSpec('tool'));
    await until(() => engine.routes().at(-1) === 'POST /containers/ID/wait');
    const finishedMs = Date.now() - 10_000;
    const FinishedAt = new Date(finishedMs).toISOString();
    engine.container().state = { Running: true, ExitCode: 0, OOMKilled: false, FinishedAt };
    engine.answerNext('GET /events', reports({ Action: 'die', timeNano: (finishedMs + toldMs) * 1e6 }));
    engine.send(frame(1, 'one\ntw'));
    engine.end(0);
    const { lines } = await readToEnd(container);
    await container.remove();
    return lines.flatMap(({ text, part }) => (part === 'end' && text === '' ? [] : [text]));
  }

  it('may lack its end if the engine waited for its reader, and not if only the worker was late', async () => {
    assert.deepEqual(await readLate(2_003), ['one', 'tw', SLOW_LINE]);
    assert.deepEqual(await readLate(40), ['one', 'tw']);
  });
});

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished, test } from 'vitest';
import type { RunningContainer } from '@longshore/worker/runtime/runtime';
import { containerSpec, textsOf } from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { TcpProxy } from '../../support/postgres/tcp-proxy.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestEngine();

async function start(host: string, image: string): Promise<RunningContainer> {
  const container = await runtimeFor({ host }).start(containerSpec(image));
  onTestFinished(() => container.remove());
  return container;
}

test(
  'continues in the log of the engine when its connection breaks, byte for byte, also to the end',
  skipFor(forTests.skip),
  async () => {
    const long = 'x'.repeat(40_000);
    const script = `
    printf 'one\\nbefore '; sleep 1; echo warning >&2;
    while [ ! -e /longshore/go ]; do sleep 0.1; done
    printf 'and after \\377\\000 bytes\\n'; echo ${long}; echo late >&2; printf end`;
    const image = await forTests.engine.buildScript('cut', script);
    const proxy = await TcpProxy.start();
    onTestFinished(() => proxy.close());
    const route = await proxy.open({ path: forTests.engine.host.replace('unix://', '') });
    const container = await start(`tcp://127.0.0.1:${route.port}`, image);
    const lines = container.lines[Symbol.asyncIterator]();
    const read = [(await lines.next()).value, (await lines.next()).value];
    await route.cut();
    const [id = ''] = await forTests.engine.containerIds();
    const go = await forTests.engine.docker
      .getContainer(id)
      .exec({ Cmd: ['/bin/busybox', 'touch', '/longshore/go'], User: '0' });
    await go.start({});
    for await (const line of { [Symbol.asyncIterator]: () => lines }) read.push(line);
    const texts = read.flatMap((line) => (line === undefined ? [] : [line]));
    // The line that waits is passed on in two parts.
    const [one, begin, rest, ...others] = textsOf(texts, 'stdout');
    assert.deepEqual(
      [one, `${begin}${rest}`, ...others],
      ['one', 'before and after \uFFFD\0 bytes', long, 'end'],
    );
    assert.deepEqual(textsOf(texts, 'stderr'), ['warning', 'late']);
  },
);

test(
  'has the last lines when the connection breaks just before the container ends',
  skipFor(forTests.skip),
  async () => {
    const script = 'echo one; while [ ! -e /longshore/go ]; do sleep 0.01; done; echo two';
    const image = await forTests.engine.buildScript('cut-at-end', script);
    const proxy = await TcpProxy.start();
    onTestFinished(() => proxy.close());
    const route = await proxy.open({ path: forTests.engine.host.replace('unix://', '') });
    const container = await start(`tcp://127.0.0.1:${route.port}`, image);
    const lines = container.lines[Symbol.asyncIterator]();
    assert.equal((await lines.next()).value?.text, 'one');
    const [id = ''] = await forTests.engine.containerIds();
    const go = await forTests.engine.docker
      .getContainer(id)
      .exec({ Cmd: ['/bin/busybox', 'touch', '/longshore/go'], User: '0' });
    await Promise.all([route.cut(), go.start({})]);
    assert.equal((await lines.next()).value?.text, 'two');
    assert.equal((await lines.next()).done, true);
  },
);

test(
  'has the end of an output whose container ended long before a slow reader comes to it',
  skipFor(forTests.skip),
  async () => {
    const LINES = 380_000;
    const image = await forTests.engine.buildScript('flood', `exec seq 1 ${LINES}`);
    const container = await start(forTests.engine.host, image);
    let count = 0;
    let last = '';
    for await (const { text } of container.lines) {
      count += 1;
      last = text;
      // 64 KB in a third of a second: the engine's pipes are full when the program ends.
      if (count % 9_000 === 0) await sleep(300);
    }
    assert.deepEqual([count, last], [LINES, String(LINES)]);
  },
);

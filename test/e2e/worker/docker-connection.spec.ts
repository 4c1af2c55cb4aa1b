import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, onTestFinished, test } from 'vitest';
import { DockerRuntime } from '@longshore/worker/runtime/docker/docker.runtime';
import { ANY_IMAGE, containerSpec, MemoryLog, textsOf } from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestEngine();
afterAll(async () => {
  if (forTests.skip === false) await forTests.engine.stop();
});

test(
  'continues in the log of the engine when its connection breaks, byte for byte, also to the end',
  { ...skipFor(forTests.skip), timeout: 120_000 },
  async () => {
    const long = 'x'.repeat(40_000);
    const script = `
    printf 'one\\nbefore '; sleep 1; echo warning >&2;
    while [ ! -e /longshore/go ]; do sleep 0.1; done
    printf 'and after \\377\\000 bytes\\n'; echo ${long}; echo late >&2; printf end`;
    const image = await forTests.engine.buildScript('cut', script);
    const proxy = await CutProxy.start(forTests.engine.host);
    const container = await new DockerRuntime({
      env: { DOCKER_HOST: proxy.host },
      workerId: 'e2e-worker',
      instance: '1f3a90cc',
      log: new MemoryLog(),
      policy: ANY_IMAGE,
    }).start(containerSpec(image));
    onTestFinished(() => container.remove());
    const lines = container.lines[Symbol.asyncIterator]();
    const read = [(await lines.next()).value, (await lines.next()).value];
    proxy.cut();
    const [id = ''] = await forTests.engine.containerIds();
    const go = await forTests.engine.docker
      .getContainer(id)
      .exec({ Cmd: ['/bin/busybox', 'touch', '/longshore/go'], User: '0' });
    await go.start({});
    for await (const line of { [Symbol.asyncIterator]: () => lines }) read.push(line);
    const texts = read.flatMap((line) => (line === undefined ? [] : [line]));
    assert.deepEqual(textsOf(texts, 'stdout'), ['one', 'before and after \uFFFD\0 bytes', long, 'end']);
    assert.deepEqual(textsOf(texts, 'stderr'), ['warning', 'late']);
  },
);

/** A socket in front of the engine's that breaks its connections. */
class CutProxy {
  private readonly open = new Set<Socket>();

  private constructor(readonly host: string) {}

  static async start(engine: string): Promise<CutProxy> {
    const path = join(mkdtempSync(join(tmpdir(), 'longshore-cut-')), 'docker.sock');
    const proxy = new CutProxy(`unix://${path}`);
    const server = createServer((socket) => {
      const upstream = connect(engine.replace('unix://', ''));
      for (const end of [socket, upstream]) {
        proxy.open.add(end);
        end.on('error', () => undefined).on('close', () => proxy.open.delete(end));
      }
      socket.pipe(upstream).pipe(socket);
    });
    onTestFinished(() => {
      proxy.cut();
      server.close();
      rmSync(dirname(path), { recursive: true, force: true });
    });
    server.listen(path);
    await once(server, 'listening');
    return proxy;
  }

  cut(): void {
    for (const socket of this.open) socket.destroy();
  }
}

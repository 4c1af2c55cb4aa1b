import assert from 'node:assert/strict';
import { afterEach, describe, it } from 'vitest';
import { DockerRuntime } from '@longshore/worker/runtime/docker/docker.runtime';
import type { RunningContainer } from '@longshore/worker/runtime/runtime';
import { containerSpec, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { blocksOf, readPages } from '../../support/docs/doc-pages.js';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { skipFor } from '../../support/skip.js';

const HOST = '198.51.100.1';

const forTests = await startTestEngine({ hostAddress: HOST });

describe('the network of runs on a real engine', skipFor(forTests.skip), () => {
  const started: RunningContainer[] = [];

  afterEach(async () => {
    await Promise.all(started.splice(0).map((container) => container.remove()));
  });

  async function start(
    network: string,
    args: string[],
    chosen: string | null = null,
  ): Promise<RunningContainer> {
    const image = await forTests.engine.buildScript('net', 'exec sh -c "$1"');
    const container = await runtime(network).start({ ...containerSpec(image), args, network: chosen });
    started.push(container);
    return container;
  }

  /** Whether a container of the network reaches another one, and an address outside of it. */
  async function reach(network: string): Promise<string[]> {
    const serve = 'mkdir /tmp/w; echo reached >/tmp/w/index.html; hostname -i; exec httpd -f -p 80 -h /tmp/w';
    const server = await start(network, [serve]);
    const { value } = await server.lines[Symbol.asyncIterator]().next();
    const { lines } = await readToEnd(await start(network, [[value?.text ?? '', HOST].map(ask).join('; ')]));
    return textsOf(lines, 'stdout');
  }

  it('has no traffic between containers, and reaches the rest of the network', async () => {
    assert.deepEqual(await reach('longshore'), ['no', 'reached']);
    // The same in a network that allows it.
    await forTests.engine.docker.createNetwork({ Name: 'shared' });
    assert.deepEqual(await reach('shared'), ['reached', 'reached']);
  });

  it('keeps what the security page blocks from runs', async () => {
    const page = (await readPages()).find(({ path }) => path === 'docs/security.md');
    assert.ok(page);
    const rules = blocksOf(page).flatMap(({ code }) => code.split('\n'));
    for (const rule of rules.filter((line) => line.startsWith('iptables '))) forTests.engine.inNetwork(rule);
    assert.deepEqual(await reach('longshore'), ['no', 'no']);
    forTests.engine.inNetwork('iptables -F INPUT');
    assert.deepEqual(await reach('longshore'), ['no', 'reached']);
  });

  it('is made once by several workers that start at the same time, also after somebody removed it', async () => {
    const { docker } = forTests.engine;
    const image = await forTests.engine.buildScript('net', 'true');
    for (let round = 0; round < 3; round++) {
      await docker
        .getNetwork('longshore')
        .remove()
        .catch(() => undefined);
      started.push(
        ...(await Promise.all(
          Array.from({ length: 4 }, () => runtime('longshore').start(containerSpec(image))),
        )),
      );
      const found = await docker.listNetworks({ filters: { name: ['longshore'] } });
      assert.equal(found.length, 1);
      await Promise.all(started.splice(0).map((container) => container.remove()));
    }
  });

  it('may be none', async () => {
    const { lines } = await readToEnd(await start('none', ['ls /sys/class/net']));
    assert.deepEqual(textsOf(lines, 'stdout'), ['lo']);
  });

  it('is of the names of the operator the one that the run chooses, or none', async () => {
    const network = await forTests.engine.docker.createNetwork({
      Name: 'backend',
      IPAM: { Config: [{ Subnet: '10.213.0.0/24' }] },
    });
    for (const [chosen, expected] of [
      ['db', /^10\.213\.0\.\d+$/],
      ['none', /^$/],
    ] as const) {
      const container = await start('longshore', ['hostname -i'], chosen);
      const { lines } = await readToEnd(container);
      assert.match(textsOf(lines, 'stdout').join(), expected);
    }
    await Promise.all(started.splice(0).map((container) => container.remove()));
    await network.remove();
    const missing = /its network 'backend' \(SERVICE_WORKER_NETWORKS\) cannot be used: .* does not have it/;
    await assert.rejects(start('longshore', ['true'], 'db'), missing);
    await assert.rejects(runtime('longshore').checkNetworks(), missing);
  });
});

/** A script that prints what a web server answers, or `no`. */
function ask(address: string): string {
  return `a=$(printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 3 ${address} 80 2>/dev/null | tail -n 1); echo "\${a:-no}"`;
}

function runtime(network: string): DockerRuntime {
  return runtimeFor(forTests.engine, { network, networks: new Map([['db', 'backend']]) });
}

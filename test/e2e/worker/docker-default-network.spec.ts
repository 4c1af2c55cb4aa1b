import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { RunningContainer } from '@longshore/worker/runtime/runtime';
import { containerSpec, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestEngine({
  hostAddress: '198.51.100.1',
  defaultNetwork: ['--mtu=1400', '--ipv6', '--fixed-cidr-v6=fd00:10:20::/64'],
});

describe(
  "the worker's own network on a real engine whose default network has IPv6",
  skipFor(forTests.skip),
  () => {
    it("has the engine's MTU, and no traffic between containers over IPv6 either", async () => {
      const image = await forTests.engine.buildScript('net', 'exec sh -c "$1"');
      const runtime = runtimeFor(forTests.engine, { network: 'longshore' });
      const start = (script: string): Promise<RunningContainer> =>
        runtime.start({ ...containerSpec(image), args: [script] });
      const serve =
        'mkdir /tmp/w; echo reached >/tmp/w/index.html; echo $(ip -o addr show dev eth0); exec httpd -f -p [::]:80 -h /tmp/w';
      const server = await start(serve);
      try {
        const { value } = await server.lines[Symbol.asyncIterator]().next();
        const found = [...(value?.text ?? '').matchAll(/inet6? ([0-9a-f.:]+)/g)].map(
          ([, address = '']) => address,
        );
        assert.ok(found.length > 0, value?.text);
        const targets = found.map((address) => (address.startsWith('fe80:') ? `${address}%eth0` : address));
        const ask = targets.map((address) => `printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 3 ${address} 80`);
        const client = await start(`cat /sys/class/net/eth0/mtu; ${ask.join('; ')}; true`);
        try {
          const { lines } = await readToEnd(client);
          assert.deepEqual(textsOf(lines, 'stdout'), ['1400']);
        } finally {
          await client.remove();
        }
      } finally {
        await server.remove();
      }
    });
  },
);

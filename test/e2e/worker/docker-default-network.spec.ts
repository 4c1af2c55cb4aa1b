import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { containerSpec, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestEngine({
  hostAddress: '198.51.100.1',
  defaultNetwork: ['--mtu=1400', '--ipv6', '--fixed-cidr-v6=fd00:10:20::/64'],
});

describe("the worker's own network on a real engine", skipFor(forTests.skip), () => {
  it("has the MTU and the IPv6 of the engine's default network, and IPv4", async () => {
    const image = await forTests.engine.buildScript('net', 'exec sh -c "$1"');
    const script = 'cat /sys/class/net/eth0/mtu; ip -o addr show dev eth0 scope global';
    const runtime = runtimeFor(forTests.engine, { network: 'longshore' });
    const container = await runtime.start({ ...containerSpec(image), args: [script] });
    try {
      const { lines } = await readToEnd(container);
      const printed = textsOf(lines, 'stdout').join('\n');
      assert.match(printed, /^1400\n/);
      assert.match(printed, /inet \d/);
      assert.match(printed, /inet6 fd/);
    } finally {
      await container.remove();
    }
  });
});

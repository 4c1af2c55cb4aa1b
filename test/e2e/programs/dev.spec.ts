import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'vitest';
import { freePort } from '../../support/programs/free-port.js';
import { launch, makeDataDir, PROJECT, until } from '../../support/service-process.js';

test('npm run dev starts service, worker and dashboard, and one Ctrl-C ends them', async () => {
  const port = await freePort();
  const dev = await launch(join(PROJECT, 'scripts', 'dev.mjs'), {
    // Vite colours its address where CI is set.
    env: {
      SERVICE_PORT: String(port),
      SERVICE_DATA_DIR: await makeDataDir(),
      SERVICE_WORKER_RUNTIME: 'process',
      NO_COLOR: '1',
    },
    cwd: PROJECT,
  });
  try {
    const dashboard = /http:\/\/localhost:\d+\/ui\//;
    await until(() => dashboard.test(dev.output) && /worker/.test(dev.output), 'dashboard and worker');
    const [url = ''] = dashboard.exec(dev.output) ?? [];
    assert.equal((await fetch(url)).status, 200);
    assert.equal((await fetch(`http://127.0.0.1:${port}/health/live`)).status, 200);
  } finally {
    dev.signal('SIGINT');
  }
  assert.equal((await dev.exited).code, 0, dev.output);
  await assert.rejects(fetch(`http://127.0.0.1:${port}/health/live`));
});

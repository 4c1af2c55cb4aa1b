import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, onTestFinished, test } from 'vitest';
import { until } from '../../support/app/passing-time.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { PROJECT } from '../../support/service-process.js';
import { LOCAL_RECEIVERS } from '../../support/webhooks/receiver.js';
import { WebhookSteps } from '../../support/webhooks/webhook-steps.js';

describe('the receiver of examples', () => {
  const service = useTestApp({ env: LOCAL_RECEIVERS });
  const runs = new RunSteps(service.send);
  const webhooks = new WebhookSteps(service.send);

  test.each([
    [process.execPath, 'receiver.mjs'],
    ['python3', 'receiver.py'],
  ])('%s %s prints a genuine message once, and refuses one with another signature', async (program, file) => {
    const { id } = await webhooks.create({
      url: 'http://127.0.0.1:1/',
      events: ['run.cancelled'],
      enabled: false,
    });
    const { secret } = (await webhooks.post(id, 'rotate-secret', {})).body;
    const child = spawn(program, [join(PROJECT, 'examples/webhook-receiver', file)], {
      env: { PATH: process.env['PATH'], WEBHOOK_SECRET: secret, PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(async () => {
      child.kill('SIGKILL');
      await once(child, 'close');
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const printed = (pattern: RegExp) =>
      until(
        () => Promise.resolve(pattern.exec(output)),
        (found) => found !== null,
      );
    const [, port] = (await printed(/listening on (\d+)/)) ?? [];
    await webhooks.update(id, { url: `http://127.0.0.1:${port}/`, enabled: true });
    const run = await runs.create();
    await service.send('POST', `/runs/${run.id}/cancel`);
    await printed(new RegExp(`^run.cancelled ${run.id} CANCELLED$`, 'm'));
    const [delivery] = await until(
      () => webhooks.deliveries(id),
      (all) => all.length === 1,
    );
    assert.equal((await webhooks.post(id, `deliveries/${delivery.id}/redeliver`)).body.status, 204);
    assert.equal(output.split(run.id).length, 2);
    await webhooks.post(id, 'rotate-secret', {});
    assert.equal((await webhooks.post(id, 'test')).body.status, 401);
    await service.send('DELETE', `/webhooks/${id}`);
  });
});

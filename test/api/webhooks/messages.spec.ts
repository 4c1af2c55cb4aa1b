import assert from 'node:assert/strict';
import { afterAll, beforeAll, beforeEach, describe, test } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import {
  isSignedWith,
  LOCAL_RECEIVERS,
  startReceiver,
  type Receiver,
} from '../../support/webhooks/receiver.js';
import { received, WebhookSteps } from '../../support/webhooks/webhook-steps.js';

describe('messages to webhooks', () => {
  const service = useTestApp({
    env: { ...LOCAL_RECEIVERS, SERVICE_PUBLIC_URL: 'https://longshore.example.com/' },
  });
  const runs = new RunSteps(service.send);
  const webhooks = new WebhookSteps(service.send);
  let receiver: Receiver;

  beforeAll(async () => {
    receiver = await startReceiver();
  });
  beforeEach(() => {
    receiver.received.length = 0;
  });
  afterAll(() => receiver.close());

  test('tell of the end of a run, are signed, and have all documented fields', async () => {
    const { id, secret } = await webhooks.create({ url: receiver.url });
    const run = await runs.running({
      name: 'nightly',
      labels: { team: 'vision' },
      event_delivery: { topic: 't' },
    });
    const ended = await runs.event(run.id, 'FAILED', {
      error_message: 'x'.repeat(2000),
      cause: 'exit',
      exit_code: 3,
    });
    const [message] = await received(receiver, 1);
    assert.ok(message);
    assert.ok(isSignedWith(message, secret));
    assert.equal(message.id, `run-failed_${run.id}_1`);
    assert.deepEqual(message.body, {
      type: 'run.failed',
      timestamp: ended.events.at(-1).t,
      data: {
        run_id: run.id,
        name: 'nightly',
        labels: { team: 'vision' },
        attempt: 1,
        state: 'FAILED',
        cause: 'exit',
        exit_code: 3,
        error_message: `${'x'.repeat(1024)}...`,
        image: 'image',
        definition: null,
        version: null,
        topic: 't',
        schedule: null,
        group: null,
        duration_ms: ended.execution_summary.duration_ms,
        url: `https://longshore.example.com/ui/runs/${run.id}`,
      },
    });
    const [delivery] = await webhooks.deliveries(id);
    assert.equal(delivery.state, 'delivered');
  });
});

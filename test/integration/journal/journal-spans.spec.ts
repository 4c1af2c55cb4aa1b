import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { claimOf, freshRun } from '../../support/runs/journal.js';
import { Registry } from 'prom-client';
import { JournalInstrumentation } from '../../../src/runs/journal/journal-instrumentation.js';
import { JournalMetrics } from '../../../src/runs/journal/journal-metrics.js';
import type { PendingCommand } from '../../../src/runs/journal/command.js';
import { IdempotencyLedger } from '../../../src/runs/idempotency/idempotency.repository.js';
import { decideGroup } from '../../../src/runs/journal/decide-group.js';
import { POLICY } from '../../../src/runs/machine/decide.fixtures.js';
import { spanStorage } from '@longshore/common/tracing/current-span';
import { startTracing } from '@longshore/common/tracing/start-tracing';
import type { Tracing } from '@longshore/common/tracing/tracing';
import { linkTo } from '../../support/app/traced-app.js';
import type { ReceivedSpan } from '../../support/monitoring/otlp-decode.js';
import { OtlpReceiver } from '../../support/monitoring/otlp-receiver.js';

class Deadlock extends Error {}

function creation(): PendingCommand {
  return { kind: 'create', fresh: freshRun(), idempotency: undefined };
}

describe('the spans of a group', () => {
  let collector: OtlpReceiver;
  let tracing: Tracing;

  beforeAll(async () => {
    collector = await OtlpReceiver.start();
    Object.assign(process.env, collector.env);
    tracing = (await startTracing(process.env, { name: 'tester', warn: assert.fail })) ?? assert.fail();
  });

  afterAll(async () => {
    await tracing.close();
    await collector.stop();
  });

  const findGroup = (tries: number): Promise<ReceivedSpan> =>
    collector.find(
      `of try ${tries}`,
      ({ name, attributes }) => name === 'journal group' && attributes['longshore.journal.try'] === tries,
    );

  it('describe a failed try and the next one, each with its requests', async () => {
    const instrumentation = new JournalInstrumentation(new JournalMetrics(new Registry()), tracing);
    const commands: PendingCommand[] = [creation(), creation(), { kind: 'claim', claim: claimOf('w') }];
    const requests = commands.slice(1).map((command, n) => {
      const span = tracing.start(`request ${n}`);
      spanStorage.run(span, () => instrumentation.submitted(command));
      return span;
    });
    await assert.rejects(
      instrumentation.commit(commands, 1, () => Promise.reject(new Deadlock('later'))),
      Deadlock,
    );
    const start = {
      keys: new IdempotencyLedger(new Map()),
      operations: new Map(),
      found: [],
      now: new Date(),
    };
    const { changes } = decideGroup([], start, POLICY);
    const committed = { changes, outcomes: [], feedEntries: 0 };
    assert.equal(
      await instrumentation.commit(commands, 2, () => Promise.resolve(committed)),
      committed.outcomes,
    );
    for (const span of requests) span.end();
    const [failed, done] = [await findGroup(1), await findGroup(2)];
    for (const group of [failed, done]) {
      assert.deepEqual(
        group.links.map(({ spanId }) => spanId),
        requests.map(({ spanId }) => spanId),
      );
      assert.equal(group.attributes['longshore.journal.commands'], 3);
      assert.equal(group.attributes['longshore.journal.creations'], 2);
      assert.equal(group.attributes['longshore.journal.claims'], 1);
      for (const { spanId } of requests) {
        const part = await collector.find(
          'of the request in the group',
          (span) => span.parentSpanId === spanId && span.links[0]?.spanId === group.spanId,
        );
        assert.deepEqual(part.links, [linkTo(group)]);
        assert.equal(part.status, group.status);
      }
    }
    assert.deepEqual([failed.status, failed.attributes['error.type']], [2, 'Deadlock']);
    assert.equal(done.status, 0);
  });
});

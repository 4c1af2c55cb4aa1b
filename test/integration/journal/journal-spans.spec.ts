import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { claimOf, freshRun } from '../../support/runs/journal.js';
import { JournalTracing } from '../../../src/runs/journal/journal-tracing.js';
import type { PendingCommand } from '../../../src/runs/journal/command.js';
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
    const journal = new JournalTracing(tracing);
    const commands: PendingCommand[] = [creation(), creation(), { kind: 'claim', claim: claimOf('w') }];
    const requests = commands.slice(1).map((command, n) => {
      const span = tracing.start(`request ${n}`);
      spanStorage.run(span, () => journal.submitted(command));
      return span;
    });
    journal.begin(commands, 1)?.end(new Deadlock('later'));
    journal.begin(commands, 2)?.end();
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

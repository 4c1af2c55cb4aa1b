import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { claimOf, freshRun } from '../support/journal.js';
import { JournalTracer } from '../../src/runs/journal/journal-tracer.js';
import type { PendingCommand } from '../../src/runs/journal/pending-command.js';
import { spanStorage } from '@longshore/common/tracing/current-span';
import { startTracing } from '@longshore/common/tracing/start-tracing';
import type { Tracing } from '@longshore/common/tracing/tracing';
import { linkTo } from '../support/traced-app.js';
import type { ReceivedSpan } from '../support/otlp-decode.js';
import { OtlpReceiver } from '../support/otlp-receiver.js';

class Deadlock extends Error {}

function creation(): PendingCommand {
  return { kind: 'create', fresh: freshRun(), idempotency: undefined };
}

describe('the trace of a group', { timeout: 60_000 }, () => {
  let collector: OtlpReceiver;
  let tracing: Tracing;

  before(async () => {
    collector = await OtlpReceiver.start();
    Object.assign(process.env, collector.env);
    tracing = (await startTracing(process.env, { name: 'tester', warn: assert.fail })) ?? assert.fail();
  });

  after(async () => {
    await tracing.close();
    await collector.stop();
  });

  const findGroup = (tries: number): Promise<ReceivedSpan> =>
    collector.find(
      `of try ${tries}`,
      ({ name, attributes }) => name === 'journal group' && attributes['longshore.journal.try'] === tries,
    );

  it('shows a try that failed and the one after it, each with its requests', async () => {
    const tracer = new JournalTracer(tracing);
    const members: PendingCommand[] = [creation(), creation(), { kind: 'claim', claim: claimOf('w') }];
    const requests = members.slice(1).map((member, n) => {
      const span = tracing.start(`request ${n}`);
      spanStorage.run(span, () => tracer.note(member));
      return span;
    });
    await assert.rejects(
      tracer.trace(members, 1, () => Promise.reject(new Deadlock('later'))),
      Deadlock,
    );
    assert.equal(await tracer.trace(members, 2, () => Promise.resolve('done')), 'done');
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

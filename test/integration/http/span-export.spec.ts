import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'vitest';
import { startTracing } from '@longshore/common/tracing/start-tracing';
import type { Tracing } from '@longshore/common/tracing/tracing';
import { OtlpReceiver } from '../../support/monitoring/otlp-receiver.js';

const QUEUE = 2048;
const BATCH = 512;

describe('spans on their way to a collector', () => {
  let collector: OtlpReceiver;
  let warnings: string[];

  const warn = (reason: string): void => void warnings.push(reason);

  /** The SDK reads the process's own environment. */
  async function start(env: Record<string, string> = {}): Promise<Tracing> {
    for (const name of Object.keys(process.env)) if (name.startsWith('OTEL_')) delete process.env[name];
    Object.assign(process.env, collector.env, env);
    return (await startTracing(process.env, { name: 'tester', version: '1', warn })) ?? assert.fail();
  }

  beforeEach(async () => {
    collector = await OtlpReceiver.start();
    warnings = [];
  });

  afterEach(() => collector.stop());

  for (const protocol of ['http/protobuf', 'http/json']) {
    it(`arrive whole by ${protocol}`, async () => {
      const tracing = await start({ OTEL_EXPORTER_OTLP_PROTOCOL: protocol });
      const first = tracing.start('first', { kind: 'server', attributes: { a: 'x', b: 2, c: true } });
      const second = tracing.start('second', { parent: first, links: [first.context] });
      second.fail('Oops');
      second.end();
      first.end();
      await tracing.close();
      const [inner, outer] = collector.spans;
      assert.ok(inner && outer);
      assert.deepEqual([inner.name, outer.name], ['second', 'first']);
      assert.deepEqual(outer.attributes, { a: 'x', b: 2, c: true });
      assert.equal(outer.kind, 2);
      assert.equal(outer.parentSpanId, '');
      assert.equal(outer.traceId, first.traceId);
      assert.equal(inner.parentSpanId, first.spanId);
      assert.deepEqual(inner.links, [{ traceId: first.traceId, spanId: first.spanId }]);
      assert.equal(inner.status, 2);
      assert.equal(inner.attributes['error.type'], 'Oops');
      assert.ok(inner.start >= outer.start && inner.end <= outer.end);
      assert.ok(collector.headers[0]?.['content-type']?.includes(protocol.slice(5)));
      assert.deepEqual(warnings, []);
    });
  }

  it('have attributes of bounded length and number, whose limits the environment sets', async () => {
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`a${n}`, n]));
    for (const [env, length, count] of [
      [{}, 1_024, 128],
      [{ OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT: '10', OTEL_ATTRIBUTE_COUNT_LIMIT: '3' }, 10, 3],
    ] as const) {
      const tracing = await start(env);
      const span = tracing.start('long', { attributes: { text: 'x'.repeat(5_000_000) } });
      span.set({ text: 'y'.repeat(5_000_000), ...many });
      span.end();
      await tracing.close();
      const attributes = collector.spans.at(-1)?.attributes ?? {};
      assert.equal(attributes['text'], 'y'.repeat(length));
      assert.equal(Object.keys(attributes).length, count);
    }
  });

  it('say who sends them, as the environment wants it', async () => {
    const tracing = await start({
      OTEL_SERVICE_NAME: 'mine',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20x',
    });
    tracing.start('a').end();
    await tracing.close();
    const { resource } = collector.spans[0] ?? assert.fail();
    assert.equal(resource['service.name'], 'mine');
    assert.equal(resource['deployment.environment.name'], 'test');
    assert.equal(resource['service.version'], '1');
    assert.equal(resource['process.pid'], process.pid);
    assert.equal(collector.headers[0]?.['authorization'], 'Bearer x');
  });

  it('are fewer by the sampler of the environment, but never those that a recorded one points to', async () => {
    const tracing = await start({ OTEL_TRACES_SAMPLER: 'parentbased_always_off' });
    const sampled = {
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      tracestate: 'a=1',
    };
    const root = tracing.start('unsampled');
    assert.equal(root.isRecorded, false);
    assert.match(root.context.traceparent, /-00$/);
    root.end();
    const child = tracing.start('child', { parent: sampled });
    assert.equal(child.context.tracestate, 'a=1');
    tracing.start('pointed at', { links: [child] }).end();
    tracing.start('not pointed at', { links: [root] }).end();
    child.end();
    await tracing.close();
    assert.deepEqual(
      collector.spans.map(({ name }) => name),
      ['pointed at', 'child'],
    );
  });

  it('take bounded memory while the collector does not answer; the others are lost, and that is said', async () => {
    const tracing = await start({ OTEL_EXPORTER_OTLP_TIMEOUT: '300' });
    collector.manner = 'hangs';
    const made = 100_000;
    gc?.();
    const before = process.memoryUsage().heapUsed;
    for (let n = 0; n < made; n += 1)
      tracing.start('a', { attributes: { text: `a text of its own ${n}` } }).end();
    gc?.();
    const grown = (process.memoryUsage().heapUsed - before) / 1024 / 1024;
    collector.manner = 'takes';
    await tracing.close();
    assert.ok(
      collector.spans.length > 0 && collector.spans.length <= QUEUE + BATCH,
      `${collector.spans.length}`,
    );
    // All of them would take more than 100 MB.
    assert.ok(grown < 60, `${grown} MB`);
  });

  for (const [title, trouble] of [
    ['hangs', (receiver: OtlpReceiver) => void (receiver.manner = 'hangs')],
    ['answers 500', (receiver: OtlpReceiver) => void (receiver.manner = { status: 500 })],
    ['answers 503', (receiver: OtlpReceiver) => void (receiver.manner = { status: 503 })],
    ['is gone', (receiver: OtlpReceiver) => receiver.stop()],
  ] as const) {
    it(`hold nobody up at the end when the collector ${title}`, async () => {
      const gone = await OtlpReceiver.start();
      const tracing = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: gone.url });
      await trouble(gone);
      tracing.start('a').end();
      await Promise.all([tracing.close(), tracing.close()]);
      tracing.start('late').end();
      if (title !== 'is gone') await gone.stop();
    });
  }
});

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import type { ReceivedSpan } from '../../support/monitoring/otlp-decode.js';
import { OtlpReceiver } from '../../support/monitoring/otlp-receiver.js';
import {
  makeDataDir,
  runService,
  startService,
  until,
  type ServiceProcess,
} from '../../support/service-process.js';
import { senderTo, type TestAnswer } from '../../support/app/test-app.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { freshTrace, linkTo, placeOf } from '../../support/app/traced-app.js';
import { endWorker, ScriptImages } from '../../support/workers/worker-process.js';

const SHOW = `printf '{"parent":"%s","state":"%s"}' "$TRACEPARENT" "$TRACESTATE" >"$SERVICE_OUTPUT_PATH"`;
const WORKER = { key: 'e2e-worker-key-of-the-tests', id: 'e2e-tracer' };
const KEYS = { SERVICE_API_KEYS: 'admin:e2e-admin-key-of-the-tests,worker:e2e-worker-key-of-the-tests' };
const databases: TestDatabase[] = [];

afterAll(async () => {
  for (const database of databases) await database.close();
});

const TRACING_MODULES = /@opentelemetry\/(?!api\/)/;

/** Starts the service on a database of the test run, which takes less time than one of its own. */
async function startOn(env: Readonly<Record<string, string>>): Promise<ServiceProcess> {
  const database = await openTestDatabase();
  databases.push(database);
  return startService({ env: { DATABASE_URL: database.url, ...KEYS, ...env } });
}

const create = (
  service: ServiceProcess,
  image: string,
  headers: Record<string, string> = {},
): Promise<TestAnswer> =>
  senderTo(service.url, 'e2e-admin-key-of-the-tests')('POST', '/runs', { body: { image }, headers });

/** What the container of the run left as its outputs, once the run has completed. */
async function outputsOf(service: ServiceProcess, runId: string): Promise<unknown> {
  const send = senderTo(service.url, 'e2e-admin-key-of-the-tests');
  const run = async () => (await send('GET', `/runs/${runId}`)).body;
  await until(async () => /^(?:COMPLETED|FAILED)$/.test((await run()).state), 'the run ends');
  const { state, outputs, execution_summary: summary } = await run();
  assert.equal(state, 'COMPLETED', JSON.stringify(summary));
  return outputs;
}

/** Paths of modules that a process had loaded, which left its coverage in the folder. */
async function loadedModules(folder: string): Promise<string[]> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.json'));
  const reports = await Promise.all(files.map((file) => readFile(join(folder, file), 'utf8')));
  return reports.flatMap((report) => JSON.parse(report).result.map(({ url }: { url: string }) => url));
}

describe('a traced run', () => {
  let collector: OtlpReceiver;
  let service: ServiceProcess;
  let images: ScriptImages;

  beforeAll(async () => {
    collector = await OtlpReceiver.start();
    images = await ScriptImages.make();
    await images.add('shows-trace', SHOW);
    await images.add('fails', 'exit 3');
    service = await startOn(collector.env);
  });

  afterAll(async () => {
    assert.equal(await service.stop(), 0);
    await collector.stop();
  });

  const under = (parent: ReceivedSpan, name: string): Promise<ReceivedSpan> =>
    collector.find(
      `${name} under ${parent.name}`,
      (span) => span.name === name && span.parentSpanId === parent.spanId && span.traceId === parent.traceId,
    );

  it("is one trace from the client's request to its container, by way of service and worker", async () => {
    const client = freshTrace();
    const worker = await images.startWorker({ ...WORKER, url: service.url, env: collector.env });
    const { body: run } = await create(service, 'shows-trace', {
      traceparent: client.traceparent,
      tracestate: 'vendor=7',
    });
    const outputs = await outputsOf(service, run.id);
    const request = await collector.find(
      'of the creation',
      ({ parentSpanId }) => parentSpanId === client.spanId,
    );
    assert.equal(request.resource['service.name'], 'longshore');
    const execution = await under(request, 'execute run');
    assert.equal(execution.resource['service.name'], 'longshore-worker');
    assert.equal(execution.attributes['longshore.run.id'], run.id);
    assert.equal(execution.attributes['longshore.run.end'], 'completed');
    await under(execution, 'pull image');
    await under(execution, 'report');
    const container = await under(execution, 'container');
    assert.equal(container.attributes['process.exit.code'], 0);
    assert.deepEqual(outputs, { parent: placeOf(container), state: 'vendor=7' });
    const claim = await collector.find(
      'of the claim',
      (span) => span.name === 'claim' && span.links.length === 1,
    );
    assert.deepEqual(claim.links, [linkTo(request)]);
    await collector.find(
      'of the last report, in the trace of the run',
      ({ name, parentSpanId }) => name === 'POST /runs/{id}/events' && parentSpanId === execution.spanId,
    );

    const failing = freshTrace();
    await create(service, 'fails', { traceparent: failing.traceparent });
    const failed = await collector.find(
      'of the failure',
      ({ name, traceId }) => name === 'execute run' && traceId === failing.traceId,
    );
    assert.deepEqual([failed.status, failed.attributes['error.type']], [2, 'container']);
    await endWorker(worker);
  });

  it('reaches the container of a worker that does not trace, as the place of its creation', async () => {
    const client = freshTrace();
    const worker = await images.startWorker({ ...WORKER, url: service.url });
    const { body: run } = await create(service, 'shows-trace', { traceparent: client.traceparent });
    const outputs = await outputsOf(service, run.id);
    const request = await collector.find(
      'of the creation',
      ({ parentSpanId }) => parentSpanId === client.spanId,
    );
    assert.deepEqual(outputs, { parent: placeOf(request), state: '' });
    await endWorker(worker);
  });
});

describe('a service that traces', () => {
  it('sends its last spans when it is stopped, from each of its processes as who it is', async () => {
    const collector = await OtlpReceiver.start();
    const service = await startOn({
      ...collector.env,
      OTEL_BSP_SCHEDULE_DELAY: '600000',
      SERVICE_WORKERS: '2',
    });
    for (let n = 0; n < 20; n += 1) {
      assert.equal((await create(service, 'i', { Connection: 'close' })).status, 201);
    }
    assert.deepEqual(collector.spans, []);
    assert.equal(await service.stop(), 0);
    const requests = collector.named('POST /runs');
    assert.equal(requests.length, 20);
    assert.equal(new Set(requests.map(({ resource }) => resource['service.instance.id'])).size, 2);
    assert.equal(new Set(requests.map(({ resource }) => resource['process.pid'])).size, 2);
    await collector.stop();
  });

  it('answers as ever and stops while its collector hangs, and says what is lost', async () => {
    const collector = await OtlpReceiver.start();
    collector.manner = 'hangs';
    const service = await startOn({
      ...collector.env,
      OTEL_EXPORTER_OTLP_TIMEOUT: '500',
      OTEL_BSP_SCHEDULE_DELAY: '1',
    });
    const send = senderTo(service.url, 'e2e-admin-key-of-the-tests');
    for (let n = 0; n < 200; n += 1) assert.equal((await send('GET', '/runs')).status, 200);
    await service.untilOutput(/spans of traces may be lost/);
    assert.equal(await service.stop(), 0);
    await collector.stop();
  });

  it('is refused settings with which no span would arrive', async () => {
    const { code, stderr } = await runService({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4317' } });
    assert.equal(code, 2);
    assert.match(stderr, /^OTEL_EXPORTER_OTLP_ENDPOINT must be an http/);
    assert.doesNotMatch(stderr, /collector:4317/);
  });
});

describe('a service that does not trace', () => {
  for (const [title, isLoaded] of [
    ['loads nothing of what that takes', false],
    ['would be seen to, as one is that traces', true],
  ] as const) {
    it(title, async () => {
      const folder = await makeDataDir();
      const collector = await OtlpReceiver.start();
      const service = await startOn({ ...(isLoaded ? collector.env : {}), NODE_V8_COVERAGE: folder });
      assert.equal((await create(service, 'i')).status, 201);
      assert.equal(await service.stop(), 0);
      await collector.stop();
      const modules = await loadedModules(folder);
      assert.ok(modules.some((path) => path.endsWith('/src/bootstrap/serve.js')));
      assert.equal(
        modules.some((path) => TRACING_MODULES.test(path)),
        isLoaded,
      );
    });
  }
});

import assert from 'node:assert/strict';
import { get, type IncomingMessage } from 'node:http';
import { INTERCEPTORS_METADATA, PATH_METADATA } from '@nestjs/common/constants.js';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { DatabaseTurns } from '../../../src/common/http/server/database-turns.js';
import { HeldRequests } from '../../../src/common/http/server/held-requests.js';
import { SESSION } from '../../../src/database/failover/session-settings.js';
import { execute } from '../../../src/database/sql/sql.js';
import { IdempotencyRetentionJob } from '../../../src/runs/idempotency/idempotency-retention.job.js';
import { until } from '../../support/app/passing-time.js';
import { KEYS, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { RunSteps } from '../../support/runs/run-steps.js';

const OTHER = 'other-client-key-of-the-tests';
const READS = 300;

/** Routes whose work goes through the journal or through statements that requests share, or that read nothing. */
const WITHOUT_TURN = [
  'BulkRunsController.cancelRuns',
  'BulkRunsController.createRuns',
  'BulkRunsController.retryRuns',
  'CapacityController.getCapacity',
  'CapacityController.getWantedWorkers',
  'ClaimsController.claimRuns',
  'DashboardController.file',
  'DashboardController.open',
  'DashboardController.redirect',
  'DefinitionsController.createDefinitionRun',
  'FeedController.getFeedCursor',
  'FeedController.readFeed',
  'FeedController.streamFeed',
  'FolderController.download',
  'FolderController.upload',
  'GroupsController.getGroup',
  'HealthController.getHealth',
  'HealthController.getLiveness',
  'LogsController.putLogChunk',
  'MetricsController.getMetrics',
  'OverviewController.getOverview',
  'ReportsController.reportEvents',
  'RunsController.addEvent',
  'RunsController.cancelRun',
  'RunsController.createRun',
  'RunsController.getRun',
  'RunsController.labelRun',
  'RunsController.patchRun',
  'RunsController.pollEvents',
  'RunsController.retryRun',
  'WebhooksController.redeliverWebhook',
  'WebhooksController.testWebhook',
  'WhoamiController.whoami',
  'WorkersController.sendHeartbeat',
];

function hasTurn(target: object): boolean {
  const interceptors: unknown = Reflect.getMetadata(INTERCEPTORS_METADATA, target);
  return Array.isArray(interceptors) && interceptors.some(({ name }) => name === 'DatabaseTurnInterceptor');
}

/** The pool has three connections beside that of the journal: each key may have one. */
describe('turns at the database', () => {
  const timeouts = { ...SESSION };
  beforeAll(() => {
    // On a busy machine, reads wait for the lock of a test for longer than the service would let them.
    Object.assign(SESSION, { lock_timeout: 0, statement_timeout: 0 });
  });
  afterAll(() => {
    Object.assign(SESSION, timeouts);
  });

  const service = useTestApp({
    env: {
      SERVICE_API_KEYS: [
        ...Object.entries(KEYS).map(([scope, key]) => `${scope}:${key}`),
        `client:${OTHER}`,
      ].join(','),
      SERVICE_DB_POOL_SIZE: '4',
      SERVICE_MAX_ANSWER_BYTES: String(64 * 1024 * 1024),
    },
  });
  const steps = new RunSteps(service.send);
  const leaving: AbortController[] = [];

  afterEach(() => {
    for (const controller of leaving.splice(0)) controller.abort();
  });

  /** Does something while no definition can be read. */
  const withoutDefinitions = <T>(work: () => Promise<T>): Promise<T> =>
    service.database.dataSource.transaction(async (manager) => {
      await execute(manager, 'lock table definitions in access exclusive mode');
      return work();
    });
  const readDefinitions = (key: string = KEYS.client): Promise<TestAnswer> =>
    service.send('GET', '/latest-definitions', { key });
  const untilWaiting = (count: number): Promise<number> => {
    const turns = service.app.get(DatabaseTurns);
    return until(
      () => Promise.resolve(turns.waiting),
      (waiting) => waiting === count,
    );
  };
  /** A request whose client reads nothing of the response but its head. */
  const openUnread = (path: string): Promise<IncomingMessage> => {
    const controller = new AbortController();
    leaving.push(controller);
    return new Promise((resolve, reject) => {
      const options = { headers: { 'X-API-Key': KEYS.client }, agent: false, signal: controller.signal };
      get(service.url + path, options, (response) => {
        response.on('error', () => undefined);
        resolve(response);
      }).on('error', reject);
    });
  };

  /** How many clients of the reads disconnected. */
  const gone = async (): Promise<string | undefined> =>
    /route="\/latest-definitions",status="none"\} (\d+)/.exec(
      (await service.send('GET', '/metrics')).text,
    )?.[1];

  test(`${READS} reads of one API key leave connections to other keys, creates and jobs, and are answered later`, async () => {
    const job = service.app.get(IdempotencyRetentionJob, { strict: false });
    const reads = await withoutDefinitions(async () => {
      const asked = Array.from({ length: READS }, () => readDefinitions());
      await untilWaiting(READS - 1);
      assert.equal((await service.send('GET', '/runs?limit=1', { key: OTHER })).status, 200);
      const { id } = await steps.create();
      assert.equal((await service.send('GET', `/runs/${id}/explain`, { key: OTHER })).status, 200);
      await job.runOnce(new Date());
      const { text } = await service.send('GET', '/metrics');
      assert.match(text, new RegExp(`^longshore_database_turns_waiting ${READS - 1}$`, 'm'));
      return asked;
    });
    const statuses = (await Promise.all(reads)).map(({ status }) => status);
    assert.deepEqual([...new Set(statuses)], [200]);
    await untilWaiting(0);
  });

  test('come in order of arrival, and a request whose client disconnects leaves the line', async () => {
    const answered: number[] = [];
    const readAs = async (n: number, signal: AbortSignal): Promise<void> => {
      const headers = { 'X-API-Key': KEYS.client };
      const { status } = await fetch(`${service.url}/latest-definitions`, { headers, signal });
      assert.equal(status, 200);
      answered.push(n);
    };
    const reads = await withoutDefinitions(async () => {
      const first = readDefinitions();
      const asked: Promise<unknown>[] = [first];
      for (let n = 1; n <= 6; n += 1) {
        const leaves = n % 2 === 0;
        const controller = new AbortController();
        if (leaves) leaving.push(controller);
        const read = readAs(n, controller.signal);
        asked.push(leaves ? assert.rejects(read, { name: 'AbortError' }) : read);
        await untilWaiting(n);
      }
      for (const controller of leaving.splice(0)) controller.abort();
      await untilWaiting(3);
      return asked;
    });
    await Promise.all(reads);
    assert.deepEqual(answered, [1, 3, 5]);
    const { text } = await service.send('GET', '/metrics');
    assert.match(text, /http_requests_total\{method="GET",route="\/latest-definitions",status="none"\} 3\n/);
    assert.doesNotMatch(text, /route="\/latest-definitions",status="(?!200|none)/);
  });

  test('last as long as their statements, although the client disconnects', async () => {
    const before = await gone();
    const controller = new AbortController();
    const [read] = await withoutDefinitions(async () => {
      const headers = { 'X-API-Key': KEYS.client };
      const left = fetch(`${service.url}/latest-definitions`, { headers, signal: controller.signal });
      const waits = readDefinitions();
      await untilWaiting(1);
      controller.abort();
      await assert.rejects(left, { name: 'AbortError' });
      await until(gone, (count) => count !== before);
      assert.equal(service.app.get(DatabaseTurns).waiting, 1);
      return [waits] as const;
    });
    assert.equal((await read).status, 200);
  });

  test('are not kept by long polls and streams that wait', async () => {
    const { id } = await steps.running();
    const held = service.app.get(HeldRequests);
    for (const path of ['logs?wait=30', 'logs/stream', 'events?wait=30&after=100', '?wait=60']) {
      const before = held.size;
      for (let n = 0; n < 4; n += 1) {
        const controller = new AbortController();
        leaving.push(controller);
        const url = `${service.url}/runs/${id}${path.startsWith('?') ? '' : '/'}${path}`;
        const waits = fetch(url, { headers: { 'X-API-Key': KEYS.client }, signal: controller.signal });
        void waits.catch(() => undefined);
      }
      await until(
        () => Promise.resolve(held.size),
        (size) => size === before + 4,
      );
      for (const key of [KEYS.client, OTHER]) assert.equal((await readDefinitions(key)).status, 200);
    }
  });

  test('end when the response is written, although its client has not read it', async () => {
    const capabilities = Array.from({ length: 1_000 }, (_, n) => String(n).padEnd(128, 'x'));
    for (let n = 0; n < 100; n += 1) {
      const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
      const body = { worker_id: `large-${n}`, resources, tags: [], capabilities };
      assert.equal((await service.send('POST', '/workers/heartbeat', { body })).status, 200);
    }
    for (let n = 0; n < 25; n += 1) await steps.create({ inputs: { text: 'x'.repeat(900_000) } });
    for (const path of ['/workers', '/runs?limit=25']) {
      const response = await openUnread(path);
      assert.equal(response.statusCode, 200);
      assert.equal((await readDefinitions()).status, 200);
      assert.equal(response.complete, false);
    }
  });

  test('are taken by every route that uses the pool by itself', () => {
    const discovery = service.app.get(DiscoveryService, { strict: false });
    const without = discovery.getControllers().flatMap(({ metatype }) => {
      if (typeof metatype !== 'function' || hasTurn(metatype)) return [];
      const prototype: object = metatype.prototype;
      return new MetadataScanner().getAllMethodNames(prototype).flatMap((name) => {
        const handler: unknown = Reflect.get(prototype, name);
        const isRoute = typeof handler === 'function' && Reflect.hasMetadata(PATH_METADATA, handler);
        return isRoute && !hasTurn(handler) ? [`${metatype.name}.${name}`] : [];
      });
    });
    assert.deepEqual(without.toSorted(), WITHOUT_TURN);
  });
});

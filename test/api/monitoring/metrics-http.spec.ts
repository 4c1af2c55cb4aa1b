import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { BulkSteps } from '../../support/runs/bulk-steps.js';
import { EventStreamReader } from '../../support/runs/event-stream.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';
import { Scrape } from '../../support/monitoring/scrape.js';
import { KEYS, type TestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const REQUESTS = 'longshore_http_requests_total';
/** One of them is told apart from the others. */
const METHODS = ['PROPFIND', 'LOCK', 'SEARCH', 'GET'];

const DURATIONS = 'longshore_http_request_duration_seconds_count';

describe('the metrics of HTTP', () => {
  const service = useTestApp({ env: { SERVICE_MAX_BODY_BYTES: '20000' } });

  /** What the work adds to these series; the scrapes themselves are left out. */
  const counting = async (
    names: readonly string[],
    work: () => Promise<unknown>,
  ): Promise<Record<string, number>> => {
    const earlier = await Scrape.of(service.send);
    await work();
    const grown = (await Scrape.of(service.send)).since(earlier, names);
    return Object.fromEntries(Object.entries(grown).filter(([key]) => !key.includes('route="/metrics"')));
  };

  test('count requests by the route as it is declared, whichever router takes them', async () => {
    const grown = await counting([REQUESTS, DURATIONS], async () => {
      const { body } = await service.send('POST', '/runs', { body: { image: 'i' } });
      await service.send('GET', `/runs/${body.id}`);
      await service.send('GET', '/runs/nobody?x');
      await service.send('HEAD', '/health');
      await service.send('GET', '/ui/nothing/there');
    });
    assert.deepEqual(grown, {
      [`${REQUESTS}{method="POST",route="/runs",status="201"}`]: 1,
      [`${REQUESTS}{method="GET",route="/runs/:id",status="200"}`]: 1,
      [`${REQUESTS}{method="GET",route="/runs/:id",status="400"}`]: 1,
      [`${REQUESTS}{method="HEAD",route="/health",status="200"}`]: 1,
      [`${REQUESTS}{method="GET",route="/ui/{*path}",status="200"}`]: 1,
      [`${DURATIONS}{method="POST",route="/runs"}`]: 1,
      [`${DURATIONS}{method="GET",route="/runs/:id"}`]: 2,
      [`${DURATIONS}{method="HEAD",route="/health"}`]: 1,
      [`${DURATIONS}{method="GET",route="/ui/{*path}"}`]: 1,
    });
  });

  test('count what is refused before a route has a say', async () => {
    const grown = await counting([REQUESTS], async () => {
      await service.send('POST', '/runs', { body: {}, key: 'wrong' });
      await service.send('POST', '/runs', { body: {}, key: KEYS.worker });
      await service.send('POST', '/runs', { body: { image: 'i'.repeat(30_000) } });
      await service.send('GET', '/no/such/path');
      await raw(service, 'no HTTP at all\r\n\r\n');
      await raw(service, 'GET /health HTTP/1.1\r\n\r\n');
      await raw(service, `GET /health HTTP/1.1\r\nHost: h\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`);
      await raw(service, 'GET /health HTTP/1.1\r\nHost: h\r\nExpect: miracles\r\nConnection: close\r\n\r\n');
    });
    assert.deepEqual(grown, {
      [`${REQUESTS}{method="POST",route="/runs",status="401"}`]: 1,
      [`${REQUESTS}{method="POST",route="/runs",status="403"}`]: 1,
      [`${REQUESTS}{method="POST",route="/runs",status="413"}`]: 1,
      [`${REQUESTS}{method="GET",route="unmatched",status="404"}`]: 1,
      [`${REQUESTS}{method="GET",route="unmatched",status="400"}`]: 1,
      [`${REQUESTS}{method="GET",route="unmatched",status="417"}`]: 1,
      [`${REQUESTS}{method="unread",route="unread",status="400"}`]: 1,
      [`${REQUESTS}{method="unread",route="unread",status="431"}`]: 1,
    });
  });

  test('leave requests that are held open out of the durations, count them, and show them while they are open', async () => {
    await service.send('POST', '/workers/heartbeat', {
      body: { worker_id: 'w', resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] },
    });
    await service.send('POST', '/workers/w/claim');
    const grown = await counting([REQUESTS, DURATIONS], async () => {
      const stream = await EventStreamReader.open(service.url, '/feed/stream?topic=t');
      const poll = service.send('GET', '/feed?topic=t&wait=20');
      const claim = service.send('POST', '/workers/w/claim?wait=20');
      await untilHeld(service, 3);
      const { body } = await service.send('POST', '/runs', {
        body: { image: 'i', event_delivery: { topic: 't' } },
      });
      await claim;
      await service.send('POST', `/runs/${body.id}/cancel`);
      assert.equal((await poll).body.events.length, 1);
      await stream.count(1);
      stream.close();
      await untilHeld(service, 0);
      await service.send('POST', '/workers/w/claim');
    });
    assert.deepEqual(grown, {
      [`${REQUESTS}{method="POST",route="/workers/:worker_id/claim",status="200"}`]: 2,
      [`${REQUESTS}{method="GET",route="/feed/stream",status="200"}`]: 1,
      [`${REQUESTS}{method="GET",route="/feed",status="200"}`]: 1,
      [`${REQUESTS}{method="POST",route="/runs",status="201"}`]: 1,
      [`${REQUESTS}{method="POST",route="/runs/:id/cancel",status="200"}`]: 1,
      [`${DURATIONS}{method="POST",route="/workers/:worker_id/claim"}`]: 1,
      [`${DURATIONS}{method="POST",route="/runs"}`]: 1,
      [`${DURATIONS}{method="POST",route="/runs/:id/cancel"}`]: 1,
    });
    const scrape = await Scrape.of(service.send);
    assert.equal(scrape.value('longshore_feed_delivery_lag_seconds_count'), 2, 'the poll and the stream');
    assert.ok((scrape.value('longshore_feed_delivery_lag_seconds_sum') ?? 99) < 5);
  });

  test('count a request whose client went away as one without an answer', async () => {
    const grown = await counting([REQUESTS, DURATIONS], async () => {
      const gone = new AbortController();
      const claim = fetch(`${service.url}/workers/w/claim?wait=20`, {
        method: 'POST',
        headers: { 'X-API-Key': KEYS.worker },
        signal: gone.signal,
      }).catch(() => undefined);
      await untilHeld(service, 1);
      gone.abort();
      await claim;
      await untilHeld(service, 0);
    });
    assert.deepEqual(grown, {
      [`${REQUESTS}{method="POST",route="/workers/:worker_id/claim",status="none"}`]: 1,
    });
    assert.equal((await Scrape.of(service.send)).value('longshore_claims_total', { outcome: 'gone' }), 1);
  });

  test('end with their connection, those too that wait behind another one', async () => {
    const grown = await counting([REQUESTS], async () => {
      const connection = await RawConnection.open(Number(new URL(service.url).port));
      const poll = requestText('GET', '/feed?topic=quiet&wait=20', { 'X-API-Key': KEYS.client });
      connection.send(poll + poll + poll);
      await untilHeld(service, 3);
      connection.destroy();
      await untilShown(service, 'longshore_http_requests_in_flight', 1);
      // Long before their waits are over.
      await untilShown(service, 'longshore_http_held_requests', 0);
    });
    assert.deepEqual(grown, { [`${REQUESTS}{method="GET",route="/feed",status="none"}`]: 3 });
  });

  test('have as many series after a thousand paths, topics, images, types, workers and methods as after a few', async () => {
    const bulk = new BulkSteps(service.send);
    const some = async (numbers: readonly number[]): Promise<void> => {
      await bulk.create(numbers.map((n) => ({ image: `i-${n}`, event_delivery: { topic: `t-${n}` } })));
      const ops = await bulk.claim('w', 100);
      await bulk.report(
        'w',
        ops.map(({ id }, n) => ({ run_id: id, type: `T_${numbers[n]}`, msg: '' })),
      );
      const paths = [`/nothing/${numbers[0]}`, `/runs/${numbers[1]}`, `/feed?topic=t-${numbers[2]}`];
      await Promise.all([
        ...paths.map((path) => service.send('GET', path)),
        ...numbers.map((n) => service.send(METHODS[n % METHODS.length] ?? '', `/nothing/${n}`)),
        service.send('POST', `/workers/w-${numbers[3]}/claim`),
      ]);
    };
    await some(hundred(1000));
    const earlier = await Scrape.of(service.send);
    for (let from = 2000; from < 3000; from += 100) await some(hundred(from));
    const later = await Scrape.of(service.send);
    assert.deepEqual(keysOf(later), keysOf(earlier));
    const grown = later.since(earlier, [REQUESTS, 'longshore_events_total']);
    assert.equal(grown[`${REQUESTS}{method="other",route="unmatched",status="404"}`], 750);
    assert.equal(grown['longshore_events_total{type="custom"}'], 1000);
  });
});

/** A hundred numbers from one on. */
function hundred(from: number): number[] {
  return Array.from({ length: 100 }, (_, n) => from + n);
}

/** The series of a scrape, but for what Node says of itself: that depends on what the process just does. */
function keysOf({ samples }: Scrape): string[] {
  return samples
    .filter(({ name }) => !name.startsWith('longshore_nodejs_'))
    .map(({ name, labels }) => `${name}${JSON.stringify(labels)}`);
}

/** Sends bytes on a connection of their own and waits for the answer to them. */
async function raw(service: TestApp, bytes: string): Promise<void> {
  const connection = await RawConnection.open(Number(new URL(service.url).port));
  connection.send(bytes);
  await connection.next();
  connection.destroy();
}

function untilHeld(service: TestApp, count: number): Promise<void> {
  return untilShown(service, 'longshore_http_held_requests', count);
}

async function untilShown(service: TestApp, name: string, value: number): Promise<void> {
  for (let tries = 0; tries < 400; tries += 1) {
    if ((await Scrape.of(service.send)).value(name) === value) return;
  }
  assert.fail(`${name} is never ${value}`);
}

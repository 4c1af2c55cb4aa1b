import assert from 'node:assert/strict';
import { request } from 'node:http';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { atDepth } from '../../support/depth.js';
import { PROJECT, startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';

/** A request of bench/lib/load/worst-requests.mjs. */
interface WorstRequest {
  readonly title: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

interface WorstRequests {
  readonly UNIT: string;
  worstOfRoutes(
    values: Readonly<Record<string, string>>,
    titles: readonly string[] | null,
  ): Iterable<WorstRequest>;
  worstOfFeatures(values: Readonly<Record<string, string>>): Iterable<WorstRequest>;
}

/** A turn of the service's event loop: the CPU time of its main thread, and its duration, in milliseconds. */
interface Turn {
  readonly cpuMs: number;
  readonly wallMs: number;
}

const BENCH = join(PROJECT, 'bench', 'lib');
const WATCH = join(BENCH, 'servers', 'loop-watch.mjs');
const KEY = 'admin-key-of-the-watchdog';

/** The values that cost the most for each byte; deeper tiers send all. */
const TITLES = atDepth({ fast: 0, all: 0, soak: 1 })
  ? null
  : ['a number', 'a text of open references', 'an object with ordered keys', 'a chain of objects'];

/**
 * The longest turn that a request may make, in units: the CPU time that plain JSON.parse needs for a body of the same size in the same
 * run. A unit is about 20 ms on a machine that does nothing else.
 */
const MOST_UNITS = 15;

/** After so many milliseconds a request is given up, with a body and without one: it may be a long poll or a stream. */
const PATIENCE_MS = [5_000, 1_000] as const;

describe('the event loop of the service', () => {
  let service: ServiceProcess;
  let worst: WorstRequests;
  let send: Send;
  let looks = 0;
  let values: Readonly<Record<string, string>>;

  beforeAll(async () => {
    worst = await import(pathToFileURL(join(BENCH, 'load', 'worst-requests.mjs')).href);
    service = await startService({
      env: {
        SERVICE_API_KEYS: `admin:${KEY}`,
        SERVICE_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64'),
        SERVICE_LOG_LEVEL: 'error',
        NODE_OPTIONS: `--import=${pathToFileURL(WATCH).href}`,
      },
    });
    send = senderTo(service.url, KEY);
    const { body: run } = await send('POST', '/runs', {
      body: { image: 'i', event_delivery: { topic: 't' } },
    });
    const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
    await send('POST', '/workers/heartbeat', { body: { worker_id: 'w', tags: [], resources } });
    assert.equal((await send('POST', '/workers/w/claim')).status, 200);
    values = { id: run.id, name: 'd', worker_id: 'w', chunk: '0' };
    await look();
  });
  afterAll(async () => {
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  /** The longest turn since the last look. */
  async function look(): Promise<Turn> {
    looks += 1;
    service.signal('SIGUSR2');
    const [, cpuMs = '', wallMs = ''] = await service.untilOutput(
      new RegExp(`^loop-watch ${looks} ([\\d.]+) ([\\d.]+)$`, 'm'),
    );
    return { cpuMs: Number(cpuMs), wallMs: Number(wallMs) };
  }

  /** Sends a request as it is; answers when it is answered, refused or given up. */
  async function sendOff({ method, path, headers, body }: WorstRequest): Promise<void> {
    const { hostname: host, port } = new URL(service.url);
    const type =
      body === undefined
        ? {}
        : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
    const stop = new AbortController();
    const sent = new Promise<void>((resolve) => {
      const options = {
        host,
        port,
        method,
        path,
        headers: { 'X-API-Key': KEY, ...type, ...headers },
        signal: stop.signal,
      };
      const out = request(options, (answer) => answer.resume().on('close', resolve));
      out.on('error', () => resolve()).end(body);
    });
    await Promise.race([sent, sleep(PATIENCE_MS[body === undefined ? 1 : 0], undefined, { ref: false })]);
    stop.abort();
  }

  /** CPU time of JSON.parse for the unit, in milliseconds: the least of several. */
  function unitMs(): number {
    const times = Array.from({ length: 5 }, () => {
      const before = process.cpuUsage();
      JSON.parse(worst.UNIT);
      const { user, system } = process.cpuUsage(before);
      return (user + system) / 1000;
    });
    return Math.min(...times);
  }

  /** The requests whose longest turn was over the bound, in words. */
  async function findLong(requests: Iterable<WorstRequest>): Promise<string[]> {
    const long: string[] = [];
    let unit = unitMs();
    for (const each of requests) {
      await look();
      await sendOff(each);
      const { cpuMs, wallMs } = await look();
      // What else the machine does may have begun since the unit was measured.
      if (cpuMs > MOST_UNITS * unit) unit = Math.max(unit, unitMs());
      if (cpuMs > MOST_UNITS * unit)
        long.push(`${each.title}: ${cpuMs} ms of CPU in ${wallMs} ms, unit ${unit} ms`);
    }
    return long;
  }

  test('is held by no request that is made of what a feature allows', async () => {
    assert.deepEqual(await findLong(worst.worstOfFeatures(values)), []);
  });

  test('is held by no hostile value in any place of a request of any route', async () => {
    assert.deepEqual(await findLong(worst.worstOfRoutes(values, TITLES)), []);
  });
});

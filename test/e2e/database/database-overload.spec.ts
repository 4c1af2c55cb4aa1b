import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import { serverUrl } from '@longshore/embedded-postgres/server-process';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo } from '../../support/app/test-app.js';

const FLOOD_MS = 30_000;
const SENDERS = 30;
/** The senders do not wait for an answer for longer: what they leave behind would pile up. */
const GIVE_UP_MS = 1_000;
const BODY_BYTES = 200_000;
/** Enough for what may wait, and far less than the whole flood. */
const HEAP_MB = 320;

async function memoryOf({ pid }: ServiceProcess): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}

async function connect({ cluster }: ServiceProcess): Promise<Client> {
  const file = await readPostmasterFile(cluster);
  assert.ok(file?.socketDirectory !== undefined, 'no database runs');
  const client = new Client({ connectionString: serverUrl(file.socketDirectory) });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

describe('a service that is flooded with commands that it cannot commit', () => {
  it('refuses them with 429, the key having its share, or 503 instead of keeping them, goes on answering everything else, and gets by with little memory', async (context) => {
    const service = await startService({ env: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}` } });
    const send = senderTo(service.url, service.adminKey);
    const body = JSON.stringify({ image: 'flood', inputs: { text: 'x'.repeat(BODY_BYTES) } });
    const blocker = await connect(service);
    await blocker.query('begin; lock table runs in exclusive mode');

    const statuses: Record<string, number> = {};
    const end = performance.now() + FLOOD_MS;
    const flood = Array.from({ length: SENDERS }, async () => {
      while (performance.now() < end) {
        const response = await fetch(`${service.url}/runs`, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', 'X-API-Key': service.adminKey },
          body,
          signal: AbortSignal.timeout(GIVE_UP_MS),
        }).catch(() => undefined);
        const status = String(response?.status ?? 'given up');
        statuses[status] = (statuses[status] ?? 0) + 1;
        if (response === undefined) continue;
        assert.ok([429, 503].includes(response.status), status);
        assert.match(response.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
        await response.text();
      }
    });
    const memory: number[] = [];
    let slowest = 0;
    while (performance.now() < end) {
      memory.push(await memoryOf(service));
      const started = performance.now();
      assert.equal((await send('GET', '/runs')).status, 200);
      slowest = Math.max(slowest, performance.now() - started);
      await sleep(250);
    }
    await Promise.all(flood);
    await blocker.end();

    const memoryMb = Math.round(Math.max(...memory));
    await context.annotate(JSON.stringify({ statuses, memoryMb, slowestRead: Math.round(slowest) }));
    assert.ok((statuses['429'] ?? 0) + (statuses['503'] ?? 0) > SENDERS, 'it refused nothing');
    const create = () => send('POST', '/runs', { body: { image: 'i' } });
    await until(async () => (await create()).status === 201, 'it works again');
    assert.equal(await service.stop(), 0);
  });
});

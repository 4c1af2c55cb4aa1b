import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { assertDense, putChunk, readLog, readWhole } from '../../support/runs/run-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { makeDataDir, startService } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';

/** Of a chunk that is nearly as large as a body may be. */
const LINES = 2500;
const TEXT = 'x'.repeat(325);
/** Some 100 MB of text. */
const CHUNKS = 124;
const MB = 1024 * 1024;

function textOf(line: number): string {
  return `${line} ${TEXT}`;
}

async function residentBytes(send: Send): Promise<number> {
  const { text } = await send('GET', '/metrics');
  return Number(/^longshore_process_resident_memory_bytes (\S+)$/m.exec(text)?.[1]);
}

describe('a container that floods its log', () => {
  it('leaves the memory of the service flat and its heartbeats quick, whoever reads meanwhile', async (t) => {
    const service = await startService();
    const send = senderTo(service.url, service.adminKey);
    const steps = new RunSteps(send);
    const runs = [await steps.running(), await steps.running()];
    const before = await residentBytes(send);
    let most = before;
    const over = new AbortController();
    const beating = (async () => {
      while (!over.signal.aborted) {
        await steps.heartbeat();
        most = Math.max(most, await residentBytes(send));
      }
    })();
    const reading = (async () => {
      while (!over.signal.aborted) {
        await readLog(send, runs[0]?.id, 'contains=nowhere');
        await readLog(send, runs[1]?.id, 'tail=1000');
      }
    })();
    await Promise.all(
      runs.map(async ({ id: run }) => {
        for (let chunk = 0; chunk < CHUNKS / 2; chunk += 1) {
          const texts = Array.from({ length: LINES }, (_, n) => textOf(chunk * LINES + n));
          const isLast = chunk === CHUNKS / 2 - 1;
          const answer = await putChunk(send, { run }, chunk, { firstLine: chunk * LINES, texts, isLast });
          assert.equal(answer.status, 200, answer.text);
        }
      }),
    );
    over.abort();
    await Promise.all([beating, reading]);
    await t.annotate(`memory ${Math.round(before / MB)} MB, at most ${Math.round(most / MB)} MB`);
    assert.ok(most - before < 250 * MB, `the service grew by ${Math.round((most - before) / MB)} MB`);
    const entries = await readWhole(send, runs[0]?.id, 'limit=5000');
    assert.equal(assertDense(entries), (CHUNKS / 2) * LINES);
    assert.equal(await service.stop(), 0);
  });
});

describe('a service that is killed while logs come in', () => {
  it('has every line that it acknowledged, once', async () => {
    const dataDir = await makeDataDir();
    let service = await startService({ dataDir });
    let send = senderTo(service.url, service.adminKey);
    const { id: run } = await new RunSteps(send).running();
    let chunk = 0;
    for (let round = 0; round < 3; round += 1) {
      const goal = chunk + 20;
      let kill: Promise<unknown> | undefined;
      for (;;) {
        const texts = Array.from({ length: 10 }, (_, n) => String(chunk * 10 + n));
        if (chunk === goal) kill ??= service.kill();
        const answer = await putChunk(send, { run }, chunk, { firstLine: chunk * 10, texts }).catch(
          () => undefined,
        );
        if (answer === undefined) break;
        assert.equal(answer.status, 200, answer.text);
        chunk += 1;
      }
      await kill;
      service = await startService({ dataDir });
      send = senderTo(service.url, service.adminKey);
    }
    const texts = Array.from({ length: 10 }, (_, n) => String(chunk * 10 + n));
    const last = await putChunk(send, { run }, chunk, { firstLine: chunk * 10, texts, isLast: true });
    assert.deepEqual([last.status, last.body.next_line], [200, chunk * 10 + 10]);
    const entries = await readWhole(send, run);
    assert.equal(assertDense(entries), chunk * 10 + 10);
    for (const { line, text } of entries) assert.equal(text, String(line));
    assert.equal(await service.stop(), 0);
  });
});

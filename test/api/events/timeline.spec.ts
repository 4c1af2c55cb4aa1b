import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { RunReader } from '../../../src/runs/reading/run.reader.js';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { eventCommand } from '../../support/runs/journal.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const LONG = 2500;

describe('the timeline', () => {
  const service = useTestApp({ env: { SERVICE_MAX_ATTEMPT_EVENT_BYTES: '20000000' } });
  const steps = new RunSteps(service.send);
  let long: string;

  beforeAll(async () => {
    const { id } = await steps.running();
    long = id;
    // STARTED was the first.
    await appendNotes(id, LONG - 1);
  });

  /** Appends notes by way of the journal, which takes them in groups. */
  async function appendNotes(id: string, count: number): Promise<void> {
    const journal = service.app.get(RunJournal);
    await Promise.all(
      range(0, count).map((i) => journal.change(id, eventCommand({ type: 'NOTE', msg: `é ${i}` }))),
    );
  }

  test('a run shows the newest 1,000 of its events, oldest first', async () => {
    assert.deepEqual(idsOf((await steps.get(long)).events), range(LONG - 1000, LONG));
  });

  test('an attempt shows the newest 1,000 of its own', async () => {
    const { id } = await steps.running({ retry_policy: { max_attempts: 2 } });
    await appendNotes(id, 1200);
    await steps.event(id, 'FAILED');
    await steps.event(id, 'NOTE');
    const [first, second] = await steps.attempts(id);
    // 0 STARTED, 1-1200 NOTE, 1201 FAILED, 1202 RETRIED, 1203 NOTE of the next attempt.
    assert.deepEqual(idsOf(first.events), range(203, 1203));
    assert.deepEqual(
      first.events.slice(-2).map(({ type }: { type: string }) => type),
      ['FAILED', 'RETRIED'],
    );
    assert.deepEqual(idsOf(second.events), [1203]);
    assert.deepEqual(idsOf((await steps.get(id)).events), range(204, 1204));
  });

  for (const [after_, first] of [
    [undefined, 0],
    [-1, 0],
    [0, 1],
    [1498, 1499],
    [1499, 1500],
    [LONG - 2, LONG - 1],
    [LONG - 1, LONG],
    [LONG, LONG],
    [2 ** 31 - 1, LONG],
    [2 ** 31, LONG],
    [2 ** 53 - 1, LONG],
  ] as const) {
    test(`a poll after ${after_ ?? 'nothing'} shows every event from ${first} on as one JSON document`, async () => {
      const query = after_ === undefined ? '' : `?after=${after_}`;
      const answer = await service.send('GET', `/runs/${long}/events${query}`);
      const { events } = bodyOf(answer, 'PolledEvents');
      assert.deepEqual(idsOf(events), range(first, LONG));
      assert.ok(answer.text === JSON.stringify({ events }), 'nothing around or between the entries');
    });
  }

  for (const [query, error] of [
    ['after=', 'after must not be empty'],
    ['after', 'after must not be empty'],
    ['after=-2', 'after must be an integer of at least -1'],
    ['after=1.0', 'after must be an integer of at least -1'],
    ['after=1e3', 'after must be an integer of at least -1'],
    ['after=0x1', 'after must be an integer of at least -1'],
    ['after=%201', 'after must be an integer of at least -1'],
    ['after=one', 'after must be an integer of at least -1'],
    ['after=null', 'after must be an integer of at least -1'],
    [`after=${2 ** 53}`, 'after must be an integer of at least -1'],
    ['after=1&after=1', 'after must not be given more than once'],
    ['after[gt]=1', 'after[gt] is not a known query parameter'],
    ['limit=1', 'limit is not a known query parameter'],
  ] as const) {
    test(`refuses a poll with ${query}`, async () => {
      assertInvalid(await service.send('GET', `/runs/${long}/events?${query}`), [error]);
    });
  }

  test('never goes back in time', async () => {
    const times = (await steps.poll(long)).map(({ t }) => String(t));
    assert.deepEqual(times.toSorted(), times);
    assert.equal((await steps.get(long)).updatedAt, times.at(-1));
  });

  test('of large payloads is read a few megabytes at a time, and answered whole', async () => {
    const { id } = await steps.create();
    const payload = { x: 'x'.repeat(300_000) };
    for (let i = 0; i < 40; i += 1) {
      const answer = await service.send('POST', `/runs/${id}/events`, {
        body: { type: 'NOTE', msg: i, payload },
        headers: { Prefer: 'return=minimal' },
      });
      assert.equal(answer.status, 204);
    }
    const pages: number[][] = [];
    const { events } = await service.app.get(RunReader).readTimeline(id, -1);
    assert.ok(!Array.isArray(events), 'it is read in pages');
    for await (const page of events) {
      assert.ok(JSON.stringify(page).length < 1_500_000, 'a page is bounded');
      pages.push(idsOf(page));
    }
    assert.deepEqual(pages.flat(), range(0, 40));
    assert.deepEqual(
      (await steps.poll(id, 20)).map(({ msg, payload: kept }) => [msg, kept.x.length]),
      range(21, 40).map((msg) => [msg, 300_000]),
    );
  });

  test('a reader that follows the tail while 20 clients write sees every event once and in order', async () => {
    const { id } = await steps.create();
    const writers = Array.from({ length: 20 }, async () => {
      for (let i = 0; i < 15; i += 1) await steps.note(id);
    });
    const seen: number[] = [];
    const reader = async (): Promise<void> => {
      while (seen.length < 300) seen.push(...idsOf(await steps.poll(id, seen.at(-1) ?? -1)));
    };
    await Promise.all([...writers, reader()]);
    assert.deepEqual(seen, range(0, 300));
  });

  for (const prefer of ['return=minimal', 'Return = "minimal"', 'respond-async, return=minimal; foo']) {
    test(`answers an event with 204 and nothing more to Prefer: ${prefer}`, async () => {
      const { id } = await steps.create();
      const answer = await service.send('POST', `/runs/${id}/events`, {
        body: { type: 'NOTE', msg: '' },
        headers: { Prefer: prefer },
      });
      assert.deepEqual([answer.status, answer.text], [204, '']);
      assert.equal((await steps.poll(id)).length, 1);
    });
  }

  for (const prefer of ['return=representation', 'return=minimalist', 'minimal', '']) {
    test(`answers an event with the run to Prefer: ${prefer || '(empty)'}`, async () => {
      const { id } = await steps.create();
      const answer = await service.send('POST', `/runs/${id}/events`, {
        body: { type: 'NOTE', msg: '' },
        headers: { Prefer: prefer },
      });
      assert.equal(bodyOf(answer, 'OpRun').events.length, 1);
    });
  }

  test('answers a refused event in full, whatever is preferred', async () => {
    const { id } = await steps.create();
    const answer = await service.send('POST', `/runs/${id}/events`, {
      body: { type: 'nope', msg: '' },
      headers: { Prefer: 'return=minimal' },
    });
    assertInvalid(answer, ['type must be 1 to 64 characters of A-Z, 0-9 and _, starting with a letter']);
  });
});

function idsOf(events: readonly { readonly id: number }[]): number[] {
  return events.map(({ id }) => id);
}

/** The integers from `from` to before `to`. */
function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}

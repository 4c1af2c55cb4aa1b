import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { RunReader } from '../../../src/runs/reading/run.reader.js';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { eventCommand } from '../../support/runs/journal.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
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

  test('a poll shows every event after the given one as one JSON document', async () => {
    for (const [given, first] of [
      [undefined, 0],
      [-1, 0],
      [0, 1],
      [1499, 1500],
      [LONG - 1, LONG],
      [2 ** 31, LONG],
      [2 ** 53 - 1, LONG],
    ] as const) {
      const query = given === undefined ? '' : `?after=${given}`;
      const answer = await service.send('GET', `/runs/${long}/events${query}`);
      const { events } = bodyOf(answer, 'PolledEvents');
      assert.deepEqual(idsOf(events), range(first, LONG));
      assert.ok(answer.text === JSON.stringify({ events }), 'nothing around or between the entries');
    }
  });

  test('a poll after what is no index is refused', async () => {
    for (const given of ['-2', '1.0', '1e3', '0x1', '%201', 'one', 'null', 2 ** 53])
      assertInvalid(await service.send('GET', `/runs/${long}/events?after=${given}`), [
        'after must be an integer of at least -1',
      ]);
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

  test('answers an event with 204 to Prefer: return=minimal, and with the run otherwise', async () => {
    const { id } = await steps.create();
    const note = (prefer: string): Promise<TestAnswer> =>
      service.send('POST', `/runs/${id}/events`, {
        body: { type: 'NOTE', msg: '' },
        headers: { Prefer: prefer },
      });
    for (const prefer of ['return=minimal', 'Return = "minimal"', 'respond-async, return=minimal; foo']) {
      const { status, text } = await note(prefer);
      assert.deepEqual([status, text], [204, ''], prefer);
    }
    for (const prefer of ['return=representation', 'return=minimalist', 'minimal', ''])
      assert.equal(bodyOf(await note(prefer), 'OpRun').id, id, prefer);
    assert.equal((await steps.poll(id)).length, 7);
  });

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

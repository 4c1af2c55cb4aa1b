import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { Effect } from '../../../src/runs/journal/command.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { createOn, eventCommand, journalOn } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const NOTE = eventCommand({ type: 'NOTE', msg: 'n' });

/** Thirteen runs of 1000 bytes and a bit fit into four answers. */
const MAX_ANSWER_BYTES = 3500;

describe('the runs that one commit reads for its answers', () => {
  const database = useTestDatabase();
  let journal: RunJournal;

  beforeAll(() => {
    ({ journal } = journalOn(database.dataSource, { maxAnswerBytes: MAX_ANSWER_BYTES }));
  });

  const create = async (bytes: number): Promise<string> =>
    (await createOn(journal, { inputs: { text: 'x'.repeat(bytes) } })).id;
  const change = (id: string): Promise<Effect> => journal.change(id, NOTE, { wantsView: true });

  test('are bounded in bytes', async () => {
    const ids = (await Promise.all(Array.from({ length: 20 }, () => create(1000)))).toSorted();
    const effects = await Promise.all(ids.map(change));
    assert.deepEqual(
      effects.map(({ view }) => view?.run.id),
      ids.map((id, at) => (at < 13 ? id : undefined)),
    );
    for (const effect of effects) assert.ok('run' in effect && effect.run.eventCount === 1);
  });

  test('have at least one, whatever its size', async () => {
    const { view } = await change(await create(50_000));
    assert.equal(view?.run.inputs['text'], 'x'.repeat(50_000));
    assert.equal(view.run.eventCount, 1);
  });
});

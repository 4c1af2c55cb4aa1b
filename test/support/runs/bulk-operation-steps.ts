import { vi } from 'vitest';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { KEYS, type TestAnswer, type TestApp } from '../app/test-app.js';
import { bodyOf } from '../http/answer-shapes.js';

/** Bulk operations over HTTP, by a client unless another key is given. */
export function bulkOperationSteps(service: TestApp) {
  const ask = (body: object, key: string = KEYS.client, idempotencyKey?: string): Promise<TestAnswer> =>
    service.send('POST', '/bulk-operations', {
      body,
      key,
      ...(idempotencyKey === undefined ? {} : { headers: { 'Idempotency-Key': idempotencyKey } }),
    });
  const start = async (body: object, key?: string): Promise<string> =>
    bodyOf(await ask(body, key), 'StartedBulkOperation', 202).id;
  const show = async (id: string) => {
    const shown = bodyOf(
      await service.send('GET', `/bulk-operations/${id}`, { key: KEYS.client }),
      'BulkOperation',
    );
    return {
      state: shown.state,
      counts: [shown.matched, shown.done, shown.refused.length, shown.remaining],
      shown,
    };
  };
  const createMany = async (count: number, image: string): Promise<string[]> => {
    const ids: string[] = [];
    for (let left = count; left > 0; left -= 100) {
      const runs = Array.from({ length: Math.min(left, 100) }, () => ({ image }));
      const { body } = await service.send('POST', '/runs/batch', { body: { runs } });
      ids.push(...body.results.map(({ run }: { run: { id: string } }) => run.id));
    }
    return ids;
  };
  /** Calls back after the commit of the first page, before the job learns of it. */
  const afterFirstPage = (action: () => void | Promise<void>): void => {
    const journal = service.app.get(RunJournal, { strict: false });
    const change = journal.carryOut.bind(journal);
    vi.spyOn(journal, 'carryOut').mockImplementationOnce(async (...args) => {
      const isRecorded = await change(...args);
      await action();
      return isRecorded;
    });
  };

  return { ask, start, show, createMany, afterFirstPage };
}

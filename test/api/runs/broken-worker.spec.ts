import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { letTimePass, until } from '../../support/app/passing-time.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const RUNS = 10;

/** Seconds between two looks at the queue. The good worker needs two of them for a run: for all runs 40 minutes. */
const STEP_S = 120;

describe('beside a good worker that is busy, a worker that does not know that it is broken', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '3600' } });
  const steps = new RunSteps(service.send);

  const losses: Readonly<Record<string, (op: any) => Promise<unknown>>> = {
    'reports failures of the infrastructure': ({ id }) =>
      steps.event(id, 'FAILED', { error_message: 'no device', cause: 'infrastructure' }),
    crashes: ({ id, attempt }) =>
      service.app
        .get(RunJournal)
        .change(id, { type: 'reclaim', workerId: 'broken', attempt, lastHeartbeatAt: null }),
  };
  for (const [title, lose] of Object.entries(losses)) {
    test(`and ${title}, ends no run: all are completed by the good one`, async () => {
      for (const id of ['good', 'broken']) await steps.heartbeat(id);
      const ids = await Promise.all(Array.from({ length: RUNS }, async () => (await steps.create()).id));
      let works: { readonly id: string; hasStarted: boolean } | null = null;
      let isExplained = false;
      for (const left = new Set<string>(ids); left.size > 0;) {
        for (;;) {
          const ops = await steps.claim('broken');
          if (ops.length === 0) break;
          for (const op of ops) await lose(op);
        }
        if (works?.hasStarted) {
          assert.equal((await steps.event(works.id, 'COMPLETED')).state, 'COMPLETED');
          left.delete(works.id);
          works = null;
        } else if (works) works.hasStarted = true;
        if (works === null) {
          const [op] = await steps.claim('good');
          if (op) works = { id: op.id, hasStarted: false };
        }
        for (const id of left) assert.notEqual((await steps.get(id)).state, 'FAILED');
        isExplained ||= await explainsRepetition([...left].find((id) => id !== works?.id));
        await letTimePass(service.dataSource, [...left], STEP_S);
        await until(countDue, (due) => due === 0);
      }
      assert.ok(isExplained);
      for (const id of ids) {
        assert.equal((await steps.get(id)).execution_summary.worker_id, 'good');
      }
    });
  }

  /** Whether the explanation says that losses do not count because one worker repeated them. */
  async function explainsRepetition(id: string | undefined): Promise<boolean> {
    if (id === undefined) return false;
    const { summary } = bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    return /its \d+ losses in a row count as 1, because the same worker repeated the others\.$/.test(summary);
  }

  async function countDue(): Promise<number> {
    const [row] = await rows<{ due: number }>(
      service.dataSource.manager,
      'select count(*)::integer as due from run_timers where due_at <= clock_timestamp()',
    );
    return row?.due ?? 0;
  }
});

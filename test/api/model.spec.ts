import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import fc from 'fast-check';
import { RUN_STATES } from '../../src/runs/machine/run-state.js';
import { rows } from '../../src/database/sql/sql.js';
import { beginSequence, MODEL_COMMANDS, type Processes } from '../support/runs/model-commands.js';
import { MAX_RECLAIMS } from '../support/runs/run-model.js';
import { checkInvariants } from '../support/runs/run-invariants.js';
import { RunSteps } from '../support/runs/run-steps.js';
import { until } from '../support/app/passing-time.js';
import { atDepth, testSeed } from '../support/depth.js';
import { useTestApp, useTestDatabase } from '../support/app/use-test-app.js';

const SEQUENCES = atDepth({ fast: 20, all: 100 });
/** TEST_SEED=n tries other sequences; a failure prints the seed and the path of the shrunk one. */
const SEED = testSeed(20_260_101);

/** Refusals that the sequences must run into. Used-up retries are too rare, 1,000 attempts too far away. */
const REFUSALS = ['locked', 'other-worker', 'stale-attempt', 'not-in-execution'];

/** What must become of runs that wait for others. */
const FATES = ['held', 'ready', 'broken', 'opened again'];

describe('two processes on one database', () => {
  const database = useTestDatabase();
  const env = { SERVICE_MAX_RECLAIMS: String(MAX_RECLAIMS), SERVICE_LOSS_PATIENCE: '0' };
  const first = useTestApp({ database, env });
  const second = useTestApp({ database, env });

  async function forgetEverything(): Promise<void> {
    const tables = await rows<{ name: string }>(
      database.dataSource,
      `select tablename as name from pg_tables where schemaname = 'public' and tablename <> 'longshore_migrations'`,
    );
    // Far quicker than truncate while there is next to nothing in them.
    await database.dataSource.query(tables.map(({ name }) => `delete from "${name}"`).join(';'));
  }

  const untilTold = (): Promise<unknown> =>
    until(
      () => rows(database.dataSource, 'select id from dependency_ends limit 1'),
      (ends) => ends.length === 0,
    );

  test('answer every sequence of commands as the pure machine does, and leave what always holds', async (t) => {
    await t.annotate(`seed ${SEED}`);
    let sequence = 0;
    const seen = new Set<string>();
    const steps = [new RunSteps(first.send), new RunSteps(second.send)] as const;
    const property = fc.asyncProperty(MODEL_COMMANDS, async (commands) => {
      sequence += 1;
      await forgetEverything();
      const real: Processes = { steps, prefix: `s${sequence}-`, untilTold };
      const model = await beginSequence(real, seen);
      await fc.asyncModelRun(() => ({ model, real }), commands);
      await checkInvariants(database.dataSource);
    });
    await fc.assert(property, { numRuns: SEQUENCES, seed: SEED, endOnFailure: false });
    const missed = [...RUN_STATES, ...REFUSALS, ...FATES].filter((what) => !seen.has(what));
    assert.deepEqual(missed, [], 'the sequences came far enough');
  });
});

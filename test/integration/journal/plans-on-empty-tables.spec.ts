import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { EntityManager } from 'typeorm';
import { v7 as uuidv7 } from 'uuid';
import { JOURNAL_SESSION } from '../../../src/database/failover/reserved-connection.js';
import { execute } from '../../../src/database/sql/sql.js';
import { IN_STATE } from '../../../src/runs/machine/decide.fixtures.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import { queueWith } from '../../support/runs/journal.js';
import { planNodes } from '../../support/postgres/plan-nodes.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Cond'?: string;
  readonly 'TID Cond'?: string;
  readonly Plans?: readonly Plan[];
}

const ID = uuidv7();

/** Statements of the journal on tables whose rows soon leave them again, by the table. */
const STATEMENTS: readonly [string, string, (manager: EntityManager) => Promise<unknown>][] = [
  [
    'the end of an execution',
    'executions',
    (manager) =>
      new RunRepository().update(manager, [], new Map(), new Set(['state', 'finishedAt']), {
        ended: new Map([[IN_STATE.COMPLETED.id, 'w']]),
        begun: [],
      }),
  ],
  ['a removal', 'queue', (manager) => queueWith().remove(manager, [{ id: ID }])],
  ['a reservation', 'queue', (manager) => queueWith().reserve(manager, [{ runId: ID, workerId: 'w' }])],
  ['a run that is passed over', 'queue', (manager) => queueWith().notePassedOver(manager, [ID], new Date())],
];

describe('plans made while a table has no live rows', () => {
  const database = useTestDatabase();

  beforeAll(async () => {
    await execute(database.dataSource, 'analyze');
  });

  for (const [title, table, run] of STATEMENTS) {
    test(`${title} reads the rows that it names, not all that vacuum could not remove`, async () => {
      const nodes: Plan[] = [];
      const runner = database.dataSource.createQueryRunner();
      const send = runner.query.bind(runner);
      await runner.startTransaction();
      for (const [name, value] of Object.entries(JOURNAL_SESSION)) {
        await send('select set_config($1, $2, true)', [name, String(value)]);
      }
      runner.query = async (sql: string) => {
        const [row] = await send(`explain (generic_plan, format json) ${sql}`);
        nodes.push(...planNodes(row['QUERY PLAN'][0].Plan));
        return { records: [], affected: 0, raw: [] };
      };
      try {
        await run(runner.manager);
      } finally {
        runner.query = send;
        await runner.rollbackTransaction();
        await runner.release();
      }
      const readers = nodes.filter(
        (node) => node['Relation Name'] === table && node['Node Type'].endsWith(' Scan'),
      );
      assert.ok(readers.length > 0);
      for (const node of readers) assert.ok(node['Index Cond'] ?? node['TID Cond'], JSON.stringify(node));
    });
  }
});

import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { dataSourceOptions, type MigrationClass } from '../../../src/database/data-source.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { migrate } from '../../../src/database/migrate.js';
import { brokenPromises } from '../history/broken-promises.js';
import { STATES, type FinalState, type State } from '../history/history.js';
import { Load, sumUp, type LoadFigures, type LoadOptions } from '../history/load.js';
import { RecordedService } from '../history/recorded-service.js';
import { SeededRandom } from '../history/seeded-random.js';
import type { RollingDeployment, Version } from './rolling-deployment.js';

const SEED = 7;

/** TypeORM orders migrations by the last 13 digits of their names; those of the service come before. */
const FIRST_EXPANSION = 1_799_999_999_000;

/** The order in which the places get their versions; the last step but one takes the upgrade back. */
const STEPS: readonly (readonly [place: 0 | 1, version: Version])[] = [
  [0, 'new'],
  [1, 'new'],
  [0, 'old'],
  [0, 'new'],
];

/** A change of a table such as a later version makes: code that does not know of it has to go on. */
function expansionOf(table: string, nth: number): MigrationClass {
  return class implements MigrationInterface {
    readonly name = `Expand_${table}_${FIRST_EXPANSION + nth}`;

    async up(q: QueryRunner): Promise<void> {
      await q.query(`
        alter table ${table}
          add column of_a_later_version text,
          add column count_of_a_later_version integer not null default 0,
          add column json_of_a_later_version json;
        create index ${table}_of_a_later_version on ${table} (count_of_a_later_version);
      `);
    }

    async down(q: QueryRunner): Promise<void> {
      await q.query(`
        alter table ${table}
          drop column of_a_later_version,
          drop column count_of_a_later_version,
          drop column json_of_a_later_version;
      `);
    }
  };
}

/** What was found. */
export interface UpgradeReport {
  readonly broken: readonly string[];
  /** Runs by state: as the runs themselves say, and as each place counts them in its overview. */
  readonly counts: {
    readonly found: Record<State, number>;
    readonly overviews: readonly Record<State, number>[];
  };
  readonly figures: LoadFigures & { readonly replacements: number };
}

/** Load on both places while they change their versions, again and again until the time is over; then everything is checked. */
export async function runUpgrade(
  deployment: RollingDeployment,
  { seconds, runs }: Pick<LoadOptions, 'seconds' | 'runs'>,
): Promise<UpgradeReport> {
  const service = new RecordedService(deployment.wires);
  const load = new Load(service, { seed: SEED, seconds, runs, clients: 8, workers: 8 });
  const [replacements] = await Promise.all([
    rollOn(deployment, () => load.share),
    load.crew.suffer(SeededRandom.for(SEED, 'mishaps'), () => load.share < 0.95),
  ]);
  const final = await load.end();
  return {
    broken: brokenPromises(service.history, final),
    counts: { found: countStates(final), overviews: await readOverviews(service) },
    figures: { ...sumUp(service.history, final, load, deployment.wires), replacements },
  };
}

/** At least once through all steps; the schema changes beside two old servers before the first. */
async function rollOn(deployment: RollingDeployment, share: () => number): Promise<number> {
  const pauseMs = 2000;
  await sleep(pauseMs);
  await expandSchema(deployment.databaseUrl);
  let replacements = 0;
  do {
    for (const [place, version] of STEPS) {
      await sleep(pauseMs);
      await deployment.roll(place, version);
      replacements += 1;
    }
    if (share() < 0.7) {
      for (const place of [1, 0] as const) {
        await sleep(pauseMs);
        await deployment.roll(place, 'old');
        replacements += 1;
      }
    }
  } while (deployment.versions.includes('old'));
  return replacements;
}

/** Extends every table, each in a transaction of its own, because one that held several locks would stop the service. */
async function expandSchema(url: string): Promise<void> {
  const settings = { url, poolSize: 1, applicationName: 'a later version', entities: ENTITIES };
  const source = new DataSource(dataSourceOptions({ ...settings, migrations: [] }));
  await source.initialize();
  try {
    const tables = source.entityMetadatas.map(({ tableName }) => tableName);
    const applied = await migrate(source, { migrations: tables.map(expansionOf) });
    assert.equal(applied.length, tables.length);
  } finally {
    await source.destroy();
  }
}

function countStates({ runs }: FinalState): Record<State, number> {
  const counts = zeroes();
  for (const { state } of runs) counts[state] += 1;
  return counts;
}

async function readOverviews(service: RecordedService): Promise<Record<State, number>[]> {
  const overviews: Record<State, number>[] = [];
  for (let place = 0; place < service.servers; place += 1) {
    const answer = await service.ask(place, { method: 'GET', path: '/overview' });
    overviews.push({ ...zeroes(), ...answer?.body.runs });
  }
  return overviews;
}

function zeroes(): Record<State, number> {
  return { PENDING: 0, ASSIGNED: 0, RUNNING: 0, CANCELLED: 0, COMPLETED: 0, FAILED: 0 } satisfies Record<
    (typeof STATES)[number],
    number
  >;
}

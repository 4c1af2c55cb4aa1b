import { randomBytes } from 'node:crypto';
import { DataSource, type EntityManager } from 'typeorm';
import { isAloneInDeployment } from '../advisory-locks.js';
import {
  DatabaseOriginEntity,
  FeedEpochEntity,
  FeedEpochHeadEntity,
  FeedTopicEntity,
} from '../entities/feed.entity.js';
import { EntityTable } from '../sql/entity-table.js';
import { rows, type SqlExecutor } from '../sql/sql.js';
import { Injectable, type OnModuleInit } from '@nestjs/common';
import { Log } from '../../common/logging/logger.js';
import { readOptions, OriginGate } from './connection-options.js';
import { ReservedConnection } from './reserved-connection.js';
import { DatabaseUnreachable } from './unavailable.js';

/** Bytes of the token of a feed epoch: cursors of it have 8 characters more. */
const TOKEN_BYTES = 6;

const EPOCHS = new EntityTable(FeedEpochEntity);

/** Identify the database: a restored, moved or copied one differs in at least one of them. */
type OriginMarks = Readonly<Record<string, string>>;

/** Readable only with the right of a function. A copy of the data directory changes `folder` only, also while others serve. */
const PRIVILEGED_MARKS = [
  {
    name: 'cluster',
    by: 'pg_control_system()',
    value: `(select system_identifier::text from pg_control_system())`,
  },
  {
    name: 'folder',
    by: 'pg_stat_file(text)',
    value: `(select extract(epoch from change)::bigint::text from pg_stat_file('PG_VERSION'))`,
  },
] as const;

export interface DetectedRestore {
  readonly epoch: number;
  readonly topics: number;
}

/**
 * Starts a new feed epoch if the database was restored from a backup since a process last served it: new events take the
 * positions of lost ones. Called before a process listens. Does nothing while other processes serve.
 */
export async function detectRestore(dataSource: DataSource): Promise<DetectedRestore | undefined> {
  return detect(dataSource, (isAlone, known, present) => isAlone && differ(known, present));
}

/**
 * Starts a new feed epoch if the service came to another database while it serves, by the promotion of a standby. Of
 * several processes that call it one starts the epoch.
 */
async function detectPromotion(dataSource: DataSource): Promise<DetectedRestore | undefined> {
  return detect(dataSource, (_isAlone, known, present) => isElsewhere(known, present));
}

/** A feed epoch. */
export type FeedEpoch = Pick<FeedEpochEntity, 'number' | 'token'>;

/** What a connection leads to. */
export interface Origin {
  /** Whether the database is the one that the newest epoch began in, as far as this can be told while processes serve. */
  readonly isKnown: boolean;
  /** Oldest first. */
  readonly epochs: readonly FeedEpoch[];
}

async function readOrigin(executor: SqlExecutor): Promise<Origin> {
  const [row] = await rows<{ marks: OriginMarks | null; epochs: readonly FeedEpoch[] | null }>(
    executor,
    `select (select marks from database_origin) as marks,
            (select json_agg(json_build_object('number', number, 'token', token) order by number)
               from ${EPOCHS.name}) as epochs`,
  );
  const known = row?.marks ?? null;
  const isKnown = known !== null && !isElsewhere(known, await readMarks(executor));
  return { isKnown, epochs: row?.epochs ?? [] };
}

async function detect(
  dataSource: DataSource,
  isOther: (isAlone: boolean, known: OriginMarks, present: OriginMarks) => boolean,
): Promise<DetectedRestore | undefined> {
  return dataSource.transaction(async (manager) => {
    const isAlone = await isAloneInDeployment(manager);
    const known = (await manager.findOneBy(DatabaseOriginEntity, { onlyRow: true }))?.marks ?? null;
    const present = await readMarks(manager);
    if (known === null || !isOther(isAlone, known, present)) {
      if (known !== null && differ(known, present)) return undefined;
      // Keep marks that another role could read and this one cannot.
      const marks = { ...known, ...present };
      if (Object.keys(marks).length > Object.keys(known ?? {}).length) await saveMarks(manager, marks);
      return undefined;
    }
    await saveMarks(manager, present);
    return startEpoch(manager);
  });
}

/** The marks that this role can read. */
async function readMarks(manager: SqlExecutor): Promise<OriginMarks> {
  const readable = await rows<{ name: string }>(
    manager,
    `select name
       from unnest($1::text[], $2::text[]) as asked (name, by)
      where has_function_privilege(by, 'execute')`,
    [PRIVILEGED_MARKS.map(({ name }) => name), PRIVILEGED_MARKS.map(({ by }) => by)],
  );
  const names = new Set(readable.map(({ name }) => name));
  const [row] = await rows<{ marks: Record<string, string | null> }>(
    manager,
    `select jsonb_build_object(
              'database', (select oid::text from pg_database where datname = current_database()),
              'feeds', 'feed_topics'::regclass::oid::text,
              'timeline', ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint::text
              ${PRIVILEGED_MARKS.filter(({ name }) => names.has(name))
                .map(({ name, value }) => `, '${name}', ${value}`)
                .join('')}
            ) as marks`,
  );
  const marks = Object.entries(row?.marks ?? {});
  return Object.fromEntries(marks.flatMap(([name, mark]) => (mark === null ? [] : [[name, mark]])));
}

async function saveMarks(manager: EntityManager, marks: OriginMarks): Promise<void> {
  await manager.upsert(DatabaseOriginEntity, { onlyRow: true, marks }, ['onlyRow']);
}

/** Whether a mark that both have differs. */
function differ(known: OriginMarks, present: OriginMarks): boolean {
  return Object.entries(known).some(([name, mark]) => (present[name] ?? mark) !== mark);
}

/** As `differ`, for processes that serve: the files of the database may be touched meanwhile. */
function isElsewhere({ folder: _folder, ...known }: OriginMarks, present: OriginMarks): boolean {
  return differ(known, present);
}

const HEADS = new EntityTable(FeedEpochHeadEntity);
const TOPICS = new EntityTable(FeedTopicEntity);

async function startEpoch(manager: EntityManager): Promise<DetectedRestore> {
  const [row] = await rows<{ number: number; topics: string }>(
    manager,
    `with epoch as (
         insert into ${EPOCHS.name} (number, token, began_at)
         select coalesce(max(number), 0) + 1, $1::text, now()
           from ${EPOCHS.name}
      returning number
       ),
       heads as (
         insert into ${HEADS.name} (number, topic, last_position)
         select e.number, t.topic, t.last_position
           from ${TOPICS.name} t
          cross join epoch e
      returning topic
       )
       select number, (select count(*) from heads) as topics
         from epoch`,
    [randomBytes(TOKEN_BYTES).toString('base64url')],
  );
  if (row === undefined) throw new Error('no feed epoch was started');
  return { epoch: row.number, topics: Number(row.topics) };
}

/** An epoch writes a row per topic: it may take longer than other statements. In milliseconds. */
const EPOCH_TIMEOUT_MS = 300_000;

/**
 * Checks every new connection before its first use: when it leads to a standby that was promoted, a feed epoch begins before
 * anything is read or written there. The standby may lack events, whose positions new events take. See docs/adr/025-promotions.md.
 */
@Injectable()
export class PromotionCheck implements OnModuleInit {
  readonly #gate: OriginGate;
  /** Undefined until the first check. */
  #epochs: readonly FeedEpoch[] | undefined;
  #detection: Promise<void> | undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly log: Log,
  ) {
    this.#gate = readOptions(dataSource).extra.originGate;
    this.#gate.use((client) => this.#check(client));
  }

  /** The feed epochs of the database that all connections lead to, oldest first. */
  get epochs(): readonly FeedEpoch[] {
    return this.#epochs ?? [];
  }

  /** Checks the connection that the start has opened. */
  onModuleInit(): Promise<void> {
    return this.#check(this.dataSource);
  }

  /** @throws DatabaseUnreachable when the connection leads to another database than this process has come to */
  async #check(connection: SqlExecutor): Promise<void> {
    let { isKnown, epochs } = await readOrigin(connection);
    if (!isKnown) {
      this.#detection ??= this.#detect().finally(() => (this.#detection = undefined));
      await this.#detection;
      ({ isKnown, epochs } = await readOrigin(connection));
    }
    if (!isKnown || this.#isBefore(epochs)) {
      throw new DatabaseUnreachable('the connection leads to another database than the others');
    }
    this.#adopt(epochs);
  }

  /** Whether the database lacks the newest epochs, as the primary that was replaced does. */
  #isBefore(epochs: readonly FeedEpoch[]): boolean {
    const known = this.epochs;
    return epochs.length < known.length && epochs.every(({ token }, n) => token === known[n]?.token);
  }

  async #detect(): Promise<void> {
    const connection = new ReservedConnection(this.dataSource, {
      // Unchecked: the check waits for it.
      originGate: new OriginGate(),
      query_timeout: EPOCH_TIMEOUT_MS,
      session: { statement_timeout: EPOCH_TIMEOUT_MS, lock_timeout: EPOCH_TIMEOUT_MS },
    });
    try {
      const begun = await detectPromotion(await connection.open());
      if (begun) this.log.info('began a feed epoch', { ...begun });
    } finally {
      await connection.close();
    }
  }

  /** Takes the newest epoch, and cuts connections of before in the same turn: none of their answers gets a cursor of it. */
  #adopt(epochs: readonly FeedEpoch[]): void {
    const before = this.#epochs;
    this.#epochs = epochs;
    if (before === undefined || before.at(-1)?.token === epochs.at(-1)?.token) return;
    this.#gate.cutAdmitted();
    this.log.warn('the database is another one than before, most likely a promoted standby', {
      epoch: epochs.at(-1)?.number,
    });
  }
}

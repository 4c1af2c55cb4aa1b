import { execute, type SqlExecutor } from '../sql/sql.js';

/** The channel of commit notices. */
export const CHANNEL = 'longshore_commit';

/**
 * Bytes of names and positions in one notification, which may have 8,000, spaces of `jsonb` and the longest topic included;
 * the rest of a notice comes in further ones.
 */
const NAMES_BYTES = 4_500;
export const POSITIONS_BYTES = 1_500;

/** What a commit tells every process; a part is absent if it has nothing to tell. */
export interface CommitNotice {
  /** Runs that became claimable. */
  readonly queue?: ClaimablePart;
  /** The milliseconds until the earliest timer that was set is due. */
  readonly timerInMs?: number;
  /** The milliseconds until a schedule that was stored is due. */
  readonly scheduleInMs?: number;
  /** Runs that were changed, by {@link shortRunId}. */
  readonly runs?: readonly string[];
  /** Ids of workers that no longer hold a run: all of them if the strategy considers free capacity, else those that did not report its end. */
  readonly freedWorkers?: readonly string[];
  /** Ids of workers with other tags or capabilities. */
  readonly changedWorkers?: readonly string[];
  /** Ids of workers whose resources have grown. */
  readonly grownWorkers?: readonly string[];
  /** Ids of workers that hold a slot of a concurrency key. */
  readonly slotWorkers?: readonly string[];
  /** Whether pauses have changed. */
  readonly pauses?: boolean;
  /** Positions of the newest entries of topics. */
  readonly topics?: Readonly<Record<string, number>>;
  /** Numbers of the newest chunks of logs, by `RUN ATTEMPT`. */
  readonly logs?: Readonly<Record<string, number>>;
  /** Members of groups are to be made or cancelled, or runs to be told of ends: by the process that sends it, and if it dies by the others. */
  readonly groupWork?: true;
  /** Webhooks were changed. */
  readonly webhooks?: true;
}

/** Runs that became claimable. A field that is absent is 0 or unknown. */
export interface ClaimablePart {
  /** Number of runs that every worker may get at any time. */
  readonly plain?: number;
  /** For each priority of these, the milliseconds since 1970 of the oldest. */
  readonly from?: readonly (readonly [number, number])[];
  /** Number of runs in other lanes. */
  readonly others?: number;
  /** What these lanes require, by id. */
  readonly lanes?: Readonly<Record<string, readonly string[]>>;
}

/** Names a run in a notice: enough to wake those who wait for it, and hardly ever others. */
export function shortRunId(id: string): string {
  return id.slice(-12);
}

/** Sends a notice with the commit of the transaction, or at once; nothing if it has no parts. */
export async function sendNotice(executor: SqlExecutor, notice: CommitNotice): Promise<void> {
  const texts = textsOf(notice);
  if (texts.length === 0) return;
  await execute(executor, `select pg_notify('${CHANNEL}', text) from unnest($1::text[]) as text`, [texts]);
}

/** SQL that sends the position of a log. @param name, position SQL of the values */
export function sendLogPosition(name: string, position: string): string {
  return `pg_notify('${CHANNEL}', jsonb_build_object('logs', jsonb_build_object(${name}, ${position}))::text)`;
}

/** The notice as JSON texts, each for one notification. */
export function textsOf(notice: CommitNotice): string[] {
  const { runs = [], freedWorkers = [], slotWorkers = [], ...rest } = notice;
  const parts: Partial<Record<string, unknown>>[] = [];
  if (Object.keys(rest).length > 0) parts.push(rest);
  let room = NAMES_BYTES - Buffer.byteLength(JSON.stringify(rest));
  for (const [part, names] of Object.entries({ runs, freedWorkers, slotWorkers })) {
    let list: string[] | undefined;
    for (const name of new Set(names)) {
      const bytes = Buffer.byteLength(JSON.stringify(name)) + 2;
      if (bytes > room || parts.length === 0) {
        parts.push({});
        room = NAMES_BYTES;
        list = undefined;
      }
      if (list === undefined) Object.assign(parts.at(-1) ?? {}, { [part]: (list = []) });
      list.push(name);
      room -= bytes;
    }
  }
  return parts.map((text) => JSON.stringify(text));
}

import { END_CAUSES, RUN_STATES, type EndCause, type RunState } from '@longshore/client/constants';
import { readSpan, readTime } from '@longshore/common/json/read-time';
import { type Command, Option } from 'commander';
import { integerOption, several, time } from '../command-kit.js';
import { tags } from './option-flags.js';
import type { Session } from '../service/session.js';

/** The flags that choose runs. */
export interface FilterFlags {
  readonly state?: RunState;
  readonly def?: string;
  readonly image?: string;
  readonly topic?: string;
  readonly selector?: readonly string[];
  readonly concurrencyKey?: string;
  readonly label?: readonly string[];
  readonly name?: string;
  readonly cause?: EndCause;
  readonly exitCode?: number;
  readonly worker?: string;
  readonly mine?: true;
  readonly rerunOf?: string;
  readonly schedule?: string;
  readonly group?: string;
  readonly endedSince?: string;
  readonly endedUntil?: string;
  readonly since?: string;
  readonly until?: string;
}

/** Adds the flags that choose runs. */
export function withRunFilters(command: Command): Command {
  return command
    .addOption(
      new Option('-s, --state <state>', 'runs in this state')
        .choices(RUN_STATES)
        .argParser((text) => text.toUpperCase()),
    )
    .option('-d, --def <name>', 'runs of this definition')
    .option('--image <image>', 'runs of this image')
    .option('-t, --topic <topic>', 'runs with this topic')
    .option('--selector <tag>', 'runs whose selector has this tag; a list is separated by commas', tags)
    .option('--concurrency-key <key>', 'runs with this concurrency key')
    .option(
      '-l, --label <key=value>',
      'runs with this label, or with this key alone; repeat it for more',
      several,
    )
    .option('--name <text>', 'runs whose name begins with this')
    .addOption(
      new Option('--cause <cause>', 'runs that failed, or were cancelled, by this').choices(END_CAUSES),
    )
    .addOption(integerOption('--exit-code <n>', 'runs that failed with this exit code', 0, 255))
    .option('--worker <id>', 'runs that this worker executes, and those that have ended on it')
    .option('--mine', 'runs that this API key has created')
    .option('--rerun-of <id>', 'runs that repeat the run with this id')
    .option('--schedule <id>', 'runs that the schedule made')
    .option('--group <id>', 'runs of this group')
    .option('--ended-since <time>', 'ended at or after: 2h, 3d, or ISO 8601 with a zone', time)
    .option('--ended-until <time>', 'ended at or before', time)
    .option('--since <time>', 'created at or after: 2h, 3d, or ISO 8601 with a zone', time)
    .option('--until <time>', 'created at or before', time);
}

/** The filters as the API takes them. Spans are counted from the service's time. */
export async function readFilters(flags: FilterFlags, session: Session) {
  const { state, def, image, topic, selector, concurrencyKey, label, name } = flags;
  const { cause, exitCode, worker, mine, rerunOf, schedule, group } = flags;
  return {
    ...(state === undefined ? {} : { state }),
    ...(def === undefined ? {} : { op_definition: def }),
    ...(image === undefined ? {} : { image }),
    ...(topic === undefined ? {} : { topic }),
    ...(selector === undefined ? {} : { selector: selector.join(',') }),
    ...(concurrencyKey === undefined ? {} : { concurrency_key: concurrencyKey }),
    ...(label === undefined ? {} : { label: [...label] }),
    ...(name === undefined ? {} : { name_prefix: name }),
    ...(cause === undefined ? {} : { cause }),
    ...(exitCode === undefined ? {} : { exit_code: exitCode }),
    ...(worker === undefined ? {} : { worker_id: worker }),
    ...(mine ? { created_by: 'me' } : {}),
    ...(rerunOf === undefined ? {} : { rerun_of: rerunOf }),
    ...(schedule === undefined ? {} : { schedule }),
    ...(group === undefined ? {} : { group }),
    ...(await readTimes(flags, session)),
  };
}

/** The bounds of the times of creation and end, in UNIX seconds. All spans are counted from one time. */
async function readTimes({ since, until, endedSince, endedUntil }: FilterFlags, session: Session) {
  const hasSpan = [since, until, endedSince, endedUntil].some(
    (text) => text !== undefined && readSpan(text) !== null,
  );
  const now = hasSpan ? await session.serviceNow() : 0;
  const seconds = (text: string): number => Math.floor(Number(readTime(text, now, -1)) / 1000);
  return {
    ...(since === undefined ? {} : { 'created[gte]': seconds(since) }),
    ...(until === undefined ? {} : { 'created[lte]': seconds(until) }),
    ...(endedSince === undefined ? {} : { 'ended[gte]': seconds(endedSince) }),
    ...(endedUntil === undefined ? {} : { 'ended[lte]': seconds(endedUntil) }),
  };
}

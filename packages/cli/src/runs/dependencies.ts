import type { Command } from 'commander';
import type { Session } from '../service/session.js';
import { tags } from './option-flags.js';
import { readRunId, RUN_WORDS } from './run-ids.js';

/** The ends for which a run may wait; the last three are Slurm's words. */
const ENDS = [
  [':completed', 'completed'],
  [':failed', 'failed'],
  [':ended', 'ended'],
  [':ok', 'completed'],
  [':notok', 'failed'],
  [':any', 'ended'],
] as const;

/** Flags for what a run waits for. */
export interface AfterFlags {
  readonly after?: readonly string[];
  readonly afterGroup?: readonly string[];
}

/** Adds the flags for what a run waits for. */
export function takesAfterFlags(command: Command): Command {
  return command
    .option(
      '--after <run>',
      `not before this run is COMPLETED; with :failed or :ended behind it, has failed or ended; ${RUN_WORDS}; a list is separated by commas`,
      tags,
    )
    .option('--after-group <group>', 'the same for a group, by its id', tags);
}

/** The field of the request that the flags give; nothing without them. @throws CliError for a run that is not found */
export async function readDependencies(
  { after = [], afterGroup = [] }: AfterFlags,
  session: Session,
  env: NodeJS.ProcessEnv,
) {
  const conditions = [];
  for (const { word, when } of after.map(readCondition))
    conditions.push({ run: await readRunId(session, word, env), when });
  for (const { word, when } of afterGroup.map(readCondition)) conditions.push({ group: word, when });
  return conditions.length === 0 ? {} : { depends_on: conditions };
}

/** A name may have a colon itself: only a known end behind it is a condition. */
function readCondition(text: string) {
  const [suffix, when] = ENDS.find(([end]) => text.endsWith(end)) ?? ['', 'completed' as const];
  return { word: text.slice(0, text.length - suffix.length), when };
}

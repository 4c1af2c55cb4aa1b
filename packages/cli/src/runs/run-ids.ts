import type { Schemas } from '@longshore/client';
import { oneLine } from '@longshore/common/shown-text';
import type { Command } from 'commander';
import { usageError } from '../cli-error.js';
import { readLastRun } from '../service/last-run.js';
import type { Session } from '../service/session.js';

type Run = Schemas['OpRun'];

const ID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;
/** What an id may begin with. */
export const BEGINNING = /^[0-9a-f]{4,8}$|^[0-9a-f]{8}-[0-9a-f-]{0,27}$/;
const MOST_CANDIDATES = 10;

/** How a run may be named on a command line. */
export const RUN_WORDS =
  'id of the run, a unique beginning of it, the name of a run (the newest has it), or @last';

/** Adds the argument for one run. */
export function takesRun(command: Command): Command {
  return command.argument('<run>', RUN_WORDS);
}

/**
 * The id of the run that a word names: an id, a beginning that only one run's id has, the newest run of a name, or `@last`, the last
 * run that this command line created. A name counts before a beginning that several ids have.
 * @throws CliError that names the runs that the word may mean
 */
export async function readRunId(session: Session, word: string, env: NodeJS.ProcessEnv): Promise<string> {
  if (word === '@last') {
    const last = await readLastRun(session.url, env);
    if (last === undefined)
      throw usageError(`no run was created from here at ${session.url}: @last is the last one`);
    return last;
  }
  const id = word.toLowerCase();
  if (ID.test(id)) return id;
  const begun = BEGINNING.test(id) ? await list(session, { id_prefix: id }) : [];
  const [first, ...others] = begun;
  if (first !== undefined && others.length === 0) return first.id;
  const [named] = await list(session, { name: word }, 1);
  if (named !== undefined) return named.id;
  const shown = JSON.stringify(word);
  if (first !== undefined) throw usageError(`several ids begin with ${shown}: ${listed(begun)}`);
  const near = await list(session, { name_prefix: word });
  throw usageError(
    near.length === 0
      ? `no run has the id or the name ${shown}`
      : `no run has the id or the name ${shown}, but names begin with it: ${listed(near)}`,
  );
}

/** {@link readRunId} of each word, in turn. */
export async function readRunIds(
  session: Session,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<readonly string[]> {
  const ids: string[] = [];
  for (const word of words) ids.push(await readRunId(session, word, env));
  return ids;
}

async function list(
  session: Session,
  filter: { readonly id_prefix?: string; readonly name?: string; readonly name_prefix?: string },
  limit = MOST_CANDIDATES + 1,
): Promise<readonly Run[]> {
  const params = { query: { ...filter, limit, include_events: false } };
  return (await session.ask((init) => session.client.GET('/runs', { params, ...init }))).data;
}

function listed(runs: readonly Run[]): string {
  const shown = runs
    .slice(0, MOST_CANDIDATES)
    .map(({ id, name, state }) => `${id} (${name === null ? '' : `${oneLine(name)}, `}${state})`);
  return [...shown, ...(runs.length > MOST_CANDIDATES ? ['and others'] : [])].join(', ');
}

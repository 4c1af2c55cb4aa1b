import type { Schemas } from '@longshore/client';
import { oneLine } from '@longshore/common/shown-text';
import type { Command } from 'commander';
import { CliError, EXIT } from '../cli-error.js';
import {
  callsService,
  openSession,
  withConnectionFlags,
  withExamples,
  type CliContext,
  type ServiceFlags,
} from '../command-kit.js';
import { download } from '../files/download.js';
import { readRunId, takesRun } from '../runs/run-ids.js';
import type { ConnectionFlags } from '../service/connection.js';
import type { Session } from '../service/session.js';
import { formatTable, size, type Column } from '../terminal/table.js';

type Artifact = Schemas['Artifact'];

const COLUMNS: readonly Column<Artifact>[] = [
  { title: 'NAME', text: ({ name }) => name, isElastic: true },
  {
    title: 'STATE',
    text: ({ state }) => state,
    colour: ({ state }) => (state === 'stored' ? 'green' : 'yellow'),
  },
  { title: 'SIZE', text: ({ bytes }) => (bytes === null ? '-' : size(bytes)) },
  { title: 'SHA256', text: ({ sha256 }) => sha256?.slice(0, 12) ?? '-' },
  { title: 'TYPE', text: ({ content_type: type }) => type ?? '-', isElastic: true },
  {
    title: 'PLACE',
    text: ({ path, to }) => (to === undefined ? (path ?? '-') : `store:${to.store}/${to.key}`),
    isElastic: true,
  },
];

/** `run files` and `run download` */
export function addRunFiles(parent: Command, context: CliContext): void {
  const files = takesRun(parent.command('files').description('list the files that a run has left'));
  callsService(files, 'run files $RUN', 'run files @last --json').action(
    async (word: string, flags: ServiceFlags) => {
      const session = await openSession(flags, context);
      const id = await readRunId(session, word, context.env);
      const found = await readArtifacts(session, id);
      const { output } = context;
      if (flags.json) await output.json(...found);
      else if (found.length === 0) noteNone(session, id);
      else await output.write(formatTable(COLUMNS, found, output));
    },
  );
  const fetching = takesRun(
    parent
      .command('download')
      .description('fetch the files that a run has left, and print their paths; what broke off is continued'),
  )
    .argument(
      '[artifacts...]',
      'their names; that of a pattern stands for all its files (default: all files)',
    )
    .option('-o, --output <folder>', 'where they are put', '.');
  withExamples(
    withConnectionFlags(fetching),
    'run download $RUN',
    'run download $RUN model plots -o results',
    'run download @last plots/loss.png',
  ).action(
    async (word: string, names: readonly string[], flags: ConnectionFlags & { readonly output: string }) => {
      const session = await openSession(flags, context);
      const id = await readRunId(session, word, context.env);
      const found = await readArtifacts(session, id);
      if (found.length === 0 && names.length === 0) noteNone(session, id);
      for (const artifact of chosen(found, names, session))
        await context.output.line(await download(session, id, artifact, flags.output));
    },
  );
}

function readArtifacts(session: Session, id: string): Promise<readonly Artifact[]> {
  const params = { path: { id } };
  return session.ask((init) => session.client.GET('/runs/{id}/artifacts', { params, ...init }));
}

function noteNone({ output }: Session, id: string): void {
  output.note(`run ${id} has left no files`);
}

/** Those that are named, or else those that are there. @throws CliError for a name that none has, or one whose file is not there */
function chosen(
  artifacts: readonly Artifact[],
  names: readonly string[],
  { output }: Session,
): readonly Artifact[] {
  const isOf = (artifact: Artifact, word: string): boolean =>
    artifact.name === word || artifact.name.startsWith(`${word.replace(/\/$/, '')}/`);
  const unknown = names.find((word) => !artifacts.some((one) => isOf(one, word)));
  if (unknown !== undefined) {
    const all = artifacts.map(({ name }) => oneLine(name)).join(', ') || 'none';
    throw new CliError(
      EXIT.failed,
      `the run has left no file ${JSON.stringify(unknown)}; it has left ${all}`,
    );
  }
  const wanted = artifacts.filter((one) => names.length === 0 || names.some((word) => isOf(one, word)));
  const absent = wanted.filter(({ state }) => state !== 'stored');
  for (const { name, state, removed_at: at } of absent)
    output.note(`longshore: ${oneLine(name)} is ${state}${at === undefined ? '' : ` since ${at}`}`);
  const [first] = absent;
  if (first !== undefined && names.length > 0)
    throw new CliError(EXIT.failed, `${oneLine(first.name)} is ${first.state}`);
  return wanted.filter(({ state }) => state === 'stored');
}

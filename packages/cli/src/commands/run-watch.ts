import type { Command } from 'commander';
import { usageError } from '../cli-error.js';
import {
  callsService,
  integerOption,
  openSession,
  type CliContext,
  type ServiceFlags,
} from '../command-kit.js';
import { followRun, printStream } from '../runs/follow-run.js';
import { LogPrinter, noteLeftOut } from '../runs/log-text.js';
import { followOptions, takesWatchFlags, type WatchFlags } from '../runs/new-run.js';
import { readRunId, takesRun } from '../runs/run-ids.js';
import type { Session } from '../service/session.js';

const MOST_LINES = 5000;
const FOLLOW_PATIENCE_MS = 300_000;

interface LogFlags extends ServiceFlags {
  readonly follow?: true;
  readonly attempt?: number;
  readonly tail?: number;
  readonly grep?: string;
  readonly timestamps?: true;
}

/** `run watch` and `run logs` */
export function addRunWatching(parent: Command, context: CliContext): void {
  const watch = takesRun(
    parent.command('watch').description('follow a run to its end: its log, its events, its progress'),
  );
  takesWatchFlags(watch);
  callsService(watch, 'run watch $RUN', 'run watch $RUN --no-logs', 'run watch $RUN --json').action(
    async (word: string, flags: ServiceFlags & WatchFlags) => {
      const session = await openSession(flags, context);
      const id = await readRunId(session, word, context.env);
      context.end(await followRun(session, id, followOptions(flags)));
    },
  );
  const logs = takesRun(parent.command('logs').description('print what the container printed'))
    .option('-f, --follow', 'follow until the log ends')
    .addOption(integerOption('-a, --attempt <n>', 'attempt whose log it is (else the current one)', 1, 1000))
    .addOption(integerOption('-n, --tail <n>', 'the newest lines, so many of them', 1, MOST_LINES))
    .option('-g, --grep <text>', 'only lines that contain this text, ignoring case')
    .option('--timestamps', 'put the time before each line');
  callsService(
    logs,
    'run logs $RUN',
    'run logs $RUN --tail 100 --follow',
    'run logs $RUN --grep error',
  ).action(async (word: string, flags: LogFlags) => {
    if (flags.follow && flags.grep !== undefined)
      throw usageError('--grep searches what is there: give it without --follow');
    const session = await openSession(flags, context);
    await printLogs(session, await readRunId(session, word, context.env), flags);
  });
}

async function printLogs(session: Session, id: string, flags: LogFlags): Promise<void> {
  const { output } = session;
  const style = { json: flags.json === true, timestamps: flags.timestamps === true };
  const printer = new LogPrinter(style, output);
  try {
    await printEach(session, id, flags, printer);
  } finally {
    await printer.end();
  }
}

async function printEach(session: Session, id: string, flags: LogFlags, printer: LogPrinter): Promise<void> {
  let place: { readonly attempt?: number; readonly after?: string } =
    flags.attempt === undefined ? {} : { attempt: flags.attempt };
  if (!flags.follow || flags.tail !== undefined) {
    for (let tail = flags.tail; ; tail = undefined) {
      const page = await readPage(session, id, {
        ...place,
        ...(tail === undefined ? { limit: MOST_LINES } : { tail }),
        ...(flags.grep === undefined ? {} : { contains: flags.grep }),
      });
      await printer.print(page.lines);
      place = { after: page.next };
      noteLeftOut(session.output, page);
      if (page.isComplete || (!flags.follow && !page.hasMore)) return;
      if (!page.hasMore) break;
    }
  }
  await printStream(session, printer, { id, place, patienceMs: FOLLOW_PATIENCE_MS });
}

interface LogPage {
  /** LogLine and LogGap in JSON. */
  readonly lines: readonly string[];
  readonly next: string;
  readonly hasMore: boolean;
  readonly isComplete: boolean;
  /** Number of lines of a complete log. */
  readonly printed: number;
  /** How many of them are not stored. */
  readonly leftOut: number;
}

function readPage(
  session: Session,
  id: string,
  query: Readonly<{ attempt?: number; after?: string; limit?: number; tail?: number; contains?: string }>,
): Promise<LogPage> {
  return session.ask(async (init) => {
    const {
      data = '',
      error,
      response,
    } = await session.client.GET('/runs/{id}/logs', {
      params: { path: { id }, query },
      parseAs: 'text',
      ...init,
    });
    const page = {
      lines: data.split('\n').filter((line) => line !== ''),
      next: response.headers.get('X-Log-Next-Cursor') ?? '',
      hasMore: response.headers.get('X-Log-Has-More') === 'true',
      isComplete: response.headers.get('X-Log-Complete') === 'true',
      printed: Number(response.headers.get('X-Log-Lines')),
      leftOut: Number(response.headers.get('X-Log-Lines-Left-Out')),
    };
    return { data: page, error, response };
  });
}

import type { Schemas } from '@longshore/client';
import { stringifyJson } from '@longshore/common/json/json-text';
import { oneLine } from '@longshore/common/shown-text';
import type { Command } from 'commander';
import { CliError, EXIT } from '../cli-error.js';
import {
  callsService,
  integerOption,
  openSession,
  type CliContext,
  type ServiceFlags,
} from '../command-kit.js';
import { readStream } from '../service/event-source.js';
import type { Session } from '../service/session.js';
import { paint, STATE_COLOURS } from '../terminal/style.js';

const PAGE = 500;

type FeedEvent = Schemas['FeedEvent'];

interface TailFlags extends ServiceFlags {
  readonly after?: string;
  readonly follow: boolean;
  /** Seconds. */
  readonly patience: number;
}

/** `feed tail` */
export function addFeed(program: Command, context: CliContext): void {
  const command = program
    .command('feed')
    .helpCommand(false)
    .description('feeds: the events of all runs with a topic')
    .command('tail')
    .description('print the events of a topic, oldest first, and every new one')
    .argument('<topic>', 'topic that runs were created with')
    .option('--after <cursor>', 'only events after this cursor (default: from the oldest event)')
    .option('--no-follow', 'end with the newest event')
    .addOption(
      integerOption(
        '--patience <seconds>',
        'how long to wait for a service that is unreachable',
        0,
        86_400,
      ).default(300),
    );
  callsService(command, 'feed tail orders', 'feed tail orders --no-follow --json').action(
    async (topic: string, flags: TailFlags) => {
      const session = await openSession(flags, context);
      const print = async (texts: readonly string[]): Promise<void> => {
        const lines = flags.json
          ? texts
          : texts.map((text) => feedLine(JSON.parse(text), context.output.colours));
        await context.output.write(lines.map((line) => `${line}\n`).join(''));
      };
      let seen = flags.after;
      if (!flags.follow) {
        await printPages(session, topic, seen, print);
        return;
      }
      try {
        for await (const batch of streamOf(session, topic, flags)) {
          await print(batch.map(({ data }) => data));
          seen = batch.at(-1)?.id ?? seen;
        }
      } catch (error) {
        // The message of a refused cursor names the one to continue from.
        const isRefused = error instanceof CliError && error.exitCode === EXIT.failed;
        if (seen !== undefined && !isRefused) context.output.note(`continue with --after ${seen}`);
        if (!session.stop.aborted) throw error;
        context.end(EXIT.interrupted);
      }
    },
  );
}

function streamOf(session: Session, topic: string, { after, patience }: TailFlags) {
  return readStream(session, {
    open: (cursor, init) =>
      session.client.GET('/feed/stream', {
        params: { query: cursor === undefined ? { topic } : { topic, after: cursor } },
        parseAs: 'stream',
        ...init,
      }),
    after,
    patienceMs: patience * 1000,
  });
}

async function printPages(
  session: Session,
  topic: string,
  first: string | undefined,
  print: (texts: readonly string[]) => Promise<void>,
): Promise<void> {
  for (let after = first; ;) {
    const query = { topic, limit: PAGE, ...(after === undefined ? {} : { after }) };
    const page = await session.ask((init) => session.client.GET('/feed', { params: { query }, ...init }));
    await print(page.events.map((event) => stringifyJson(event)));
    after = page.next_cursor ?? after;
    if (!page.has_more) return;
  }
}

function feedLine({ t, run_id: run, attempt, type, state, msg }: FeedEvent, colours: boolean): string {
  const shown = type === 'PROGRESS' ? `${msg} %` : oneLine(String(msg));
  const shownState = paint(state.padEnd(9), STATE_COLOURS[state], colours);
  return `${t}  ${run}  ${attempt}  ${shownState}  ${oneLine(type).padEnd(9)}  ${shown}`.trimEnd();
}

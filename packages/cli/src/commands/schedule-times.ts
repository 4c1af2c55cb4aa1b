import { readTime } from '@longshore/common/json/read-time';
import { Option, type Command } from 'commander';
import { FIRE_COLUMNS, takesSchedule } from '../catalog/schedule-view.js';
import { CliError, EXIT, usageError } from '../cli-error.js';
import {
  callsService,
  integerOption,
  openSession,
  time,
  type CliContext,
  type ServiceFlags,
} from '../command-kit.js';
import { followRun } from '../runs/follow-run.js';
import { followOptions, takesWatchFlags, type WatchFlags } from '../runs/new-run.js';
import { keepLastRun } from '../service/last-run.js';
import { formatTable } from '../terminal/table.js';

/** Commands about the times of schedules: `trigger`, `backfill`, `fires` and `preview`. */
export function addScheduleTimes(parent: Command, context: CliContext): void {
  addTrigger(parent, context);
  addBackfill(parent, context);
  addFires(parent, context);
  addPreview(parent, context);
}

function addTrigger(parent: Command, context: CliContext): void {
  const command = takesWatchFlags(
    takesSchedule(parent, 'trigger', 'make a run now, also of a paused schedule, and print its id'),
  ).option('-w, --wait', 'follow the run; the exit code says how it ended');
  callsService(command, 'schedule trigger nightly --wait').action(
    async (id: string, flags: ServiceFlags & WatchFlags & { readonly wait?: true }) => {
      const session = await openSession(flags, context);
      const params = { path: { id } };
      const headers = { 'Idempotency-Key': session.newKey() };
      const fire = await session.ask((init) =>
        session.client.POST('/schedules/{id}/trigger', { params, headers, ...init }),
      );
      const { output, env } = context;
      const { run_id: run } = fire;
      if (run === null) {
        if (flags.json) await output.json(fire);
        throw new CliError(EXIT.failed, `${fire.outcome}: ${fire.reason ?? 'no run was made'}`);
      }
      await keepLastRun(session.url, run, env);
      if (!flags.wait) {
        await (flags.json ? output.json(fire) : output.line(run));
        return;
      }
      if (!flags.json) output.note(`run ${run}`);
      context.end(await followRun(session, run, followOptions(flags)));
    },
  );
}

function addBackfill(parent: Command, context: CliContext): void {
  const command = takesSchedule(
    parent,
    'backfill',
    'make a run for each time of the past that has none, at most 1,000 at once',
  )
    .requiredOption('--from <time>', 'the first time: ISO 8601, or a span such as 7d before now', time)
    .addOption(new Option('--until <time>', 'the last time').default('0s', 'now').argParser(time));
  callsService(
    command,
    'schedule backfill nightly --from 7d',
    'schedule backfill nightly --from 2026-03-01T00:00:00Z --until 2026-03-07T23:59:59Z',
  ).action(async (id: string, flags: ServiceFlags & { readonly from: string; readonly until: string }) => {
    const session = await openSession(flags, context);
    const now = await session.serviceNow();
    const at = (text: string): string => readTime(text, now, -1)?.toISOString() ?? text;
    const params = { path: { id } };
    const body = { from: at(flags.from), until: at(flags.until) };
    const done = await session.ask((init) =>
      session.client.POST('/schedules/{id}/backfill', { params, body, ...init }),
    );
    const { output } = context;
    const text = `${done.created} runs created of ${done.times} times, ${done.existing} had one, ${done.failed} failed`;
    await (flags.json ? output.json(done) : output.line(text));
    if (done.failed > 0) context.end(EXIT.failed);
  });
}

function addFires(parent: Command, context: CliContext): void {
  const command = takesSchedule(parent, 'fires', 'list what became of its times, the newest first').addOption(
    integerOption('-n, --limit <n>', 'so many at most', 1, 1000).default(20),
  );
  callsService(command, 'schedule fires nightly -n 100').action(
    async (id: string, { json, limit, ...flags }: ServiceFlags & { readonly limit: number }) => {
      const session = await openSession(flags, context);
      const params = { path: { id }, query: { limit } };
      const fires = await session.ask((init) =>
        session.client.GET('/schedules/{id}/fires', { params, ...init }),
      );
      const { output } = context;
      if (json) await output.json(...fires);
      else if (fires.length === 0) output.note('no time has come yet');
      else await output.write(formatTable(FIRE_COLUMNS, fires, output));
    },
  );
}

interface PreviewFlags extends ServiceFlags {
  readonly every?: number;
  readonly timezone?: string;
  readonly from?: string;
  readonly count: number;
}

function addPreview(parent: Command, context: CliContext): void {
  const command = parent
    .command('preview')
    .description('show the next times of cron expressions, or of a period, and store nothing')
    .argument('[cron...]', 'expressions of five fields, or @daily and the like, each in quotes')
    .addOption(
      integerOption(
        '--every <seconds>',
        'seconds between two times, in place of expressions',
        10,
        31_622_400,
      ),
    )
    .option('--timezone <zone>', 'time zone of the expressions, such as Europe/Berlin (default: UTC)')
    .addOption(new Option('--from <time>', 'the times after this one (default: now)').argParser(time))
    .addOption(integerOption('-n, --count <n>', 'so many times', 1, 100).default(10));
  callsService(
    command,
    'schedule preview "30 2 * * *" --timezone Europe/Berlin --from 2026-03-28T00:00:00Z -n 3',
    'schedule preview --every 300',
  ).action(async (cron: string[], { json, every, timezone, from, count, ...flags }: PreviewFlags) => {
    if (cron.length > 0 === (every !== undefined)) throw usageError('give expressions, or --every');
    const session = await openSession(flags, context);
    const start = from === undefined ? null : readTime(from, await session.serviceNow(), -1);
    const body = {
      ...(every === undefined ? { cron } : { every_s: every }),
      timezone: timezone ?? null,
      ...(start === null ? {} : { from: start.toISOString() }),
      count,
    };
    const { times } = await session.ask((init) =>
      session.client.POST('/schedules/preview', { body, ...init }),
    );
    const { output } = context;
    if (json) await output.json(...times);
    else if (times.length === 0) output.note('no times');
    else
      for (const { at, note } of times)
        await output.line(note === undefined ? at : `${at}  ${note.replace('_', ' ')}`);
  });
}

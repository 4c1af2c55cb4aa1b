import type { Schemas } from '@longshore/client';
import { TERMINAL_STATES } from '@longshore/client/constants';
import { oneLine, plainText } from '@longshore/common/shown-text';
import type { Command } from 'commander';
import { callsService, type CliContext, openSession, type ServiceFlags } from '../command-kit.js';
import { readRunId, takesRun } from '../runs/run-ids.js';
import { holdersText, runDetails } from '../runs/run-view.js';
import { STATE_COLOURS } from '../terminal/style.js';
import { type Column, formatFields, formatTable, span, type TableStyle } from '../terminal/table.js';

/** `run get`, `run explain` */
export function addRunReading(parent: Command, context: CliContext): void {
  addGet(parent, context);
  addExplain(parent, context);
}

function addGet(parent: Command, context: CliContext): void {
  const command = takesRun(parent.command('get').description('show a run'));
  callsService(command, 'run get $RUN', 'run get @last --json').action(
    async (word: string, flags: ServiceFlags) => {
      const session = await openSession(flags, context);
      const id = await readRunId(session, word, context.env);
      const params = { path: { id } };
      const run = await session.ask((init) => session.client.GET('/runs/{id}', { params, ...init }));
      const { output } = context;
      if (flags.json) {
        await output.json(run);
        return;
      }
      // The runs that hold the key change without a change of this run.
      const hasKey = run.concurrency !== null && !TERMINAL_STATES.has(run.state);
      const explained = hasKey
        ? await session.ask((init) => session.client.GET('/runs/{id}/explain', { params, ...init }))
        : undefined;
      await output.write(runDetails(run, output.colours, holdersText(explained?.concurrency ?? null)));
    },
  );
}

function addExplain(parent: Command, context: CliContext): void {
  const command = takesRun(parent.command('explain').description('explain why a run is in its state'));
  callsService(command, 'run explain $RUN').action(async (word: string, flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const id = await readRunId(session, word, context.env);
    const params = { path: { id } };
    const explained = await session.ask((init) =>
      session.client.GET('/runs/{id}/explain', { params, ...init }),
    );
    const { output } = context;
    await (flags.json ? output.json(explained) : output.write(explanationText(explained, output)));
  });
}

type Explanation = Schemas['RunExplanation'];
type Worker = Schemas['ExplainedWorker'];

const COLUMNS: readonly Column<Worker>[] = [
  { title: 'WORKER', text: ({ id }) => id },
  { title: 'NOW', text: ({ can_take_now: can }) => (can ? 'yes' : 'no') },
  { title: 'EVER', text: ({ could_ever: could }) => (could ? 'yes' : 'no') },
  { title: 'BECAUSE', text: because, isElastic: true },
];

/** Why a run is in its state: a sentence, then the facts, then the error. */
export function explanationText(explained: Explanation, style: TableStyle): string {
  const { queue, deadline, holder, ended, counts, workers, requirements, concurrency } = explained;
  const facts = formatFields(
    [
      ['state', explained.state, STATE_COLOURS[explained.state]],
      ['attempt', String(explained.attempt)],
      ['reason', explained.reason ?? undefined],
      ['strategy', explained.strategy],
      [
        'place in queue',
        queue === null || queue.position === null
          ? undefined
          : `${queue.position_is_exact ? '' : 'beyond '}${queue.position}`,
      ],
      ['waiting', queue === null ? undefined : span(queue.waiting_ms)],
      ['starts at', queue?.start_at ?? undefined],
      ['back-off until', queue?.start_at ? undefined : (queue?.not_before ?? undefined)],
      ['waits for', listed(explained.waiting_for.map(awaitedText))],
      ['needs tags', listed(requirements?.selector)],
      ['needs capabilities', listed(requirements?.capabilities)],
      [
        'concurrency key',
        concurrency === null
          ? undefined
          : `${oneLine(concurrency.key)}: ${concurrency.executing} of ${concurrency.limit} in execution`,
      ],
      ['key held by', holdersText(concurrency)],
      ['kept free for it', queue?.reserved_for ?? undefined],
      [
        'deadline',
        deadline === null ? undefined : `${deadline.budget} over in ${span(deadline.remaining_ms)}`,
      ],
      ['worker', holder?.worker_id ?? undefined],
      ['job', holder?.engine ? oneLine(`${holder.engine.name} ${holder.engine.id}`) : undefined],
      ['it waits there', holder?.engine?.reason ? oneLine(holder.engine.reason) : undefined],
      ['it prepares', holder?.preparing ? oneLine(holder.preparing.what) : undefined],
      ['cause', ended?.cause ?? undefined],
      ['exit code', ended?.exit_code?.toString()],
      [
        'last heard',
        holder === null || holder.silent_ms === null ? undefined : `${span(holder.silent_ms)} ago`,
      ],
      [
        'workers',
        counts === null
          ? undefined
          : `${counts.active} active (${counts.able_now} can take it now, ${counts.able_ever} ever${counts.draining + counts.not_claiming > 0 ? '; those that claim nothing are not counted' : ''}), ${counts.draining} draining, ${counts.not_claiming} not claiming, ${counts.away} away, ${counts.stale} stale`,
      ],
    ],
    style.colours,
  );
  const table = workers.length === 0 ? '' : `\n${formatTable(COLUMNS, workers, style)}`;
  // Indented, so that no line of it looks like one of this command.
  const error = ended?.error_message ?? '';
  const failure = error === '' ? '' : `\n${plainText(error.trimEnd()).replaceAll(/^/gm, '  ')}\n`;
  return `${oneLine(explained.summary)}\n\n${facts}${failure}${table}`;
}

function listed(words: readonly string[] = []): string | undefined {
  return words.length === 0 ? undefined : words.map(oneLine).join(', ');
}

function awaitedText({ run, group, state }: Explanation['waiting_for'][number]): string {
  return `${run === undefined ? `group ${group}` : `run ${run}`} (${state ?? 'removed'})`;
}

function because({ obstacles, draining, not_claiming: notClaiming, unable }: Worker): string {
  const reasons = obstacles.map(({ resource, needed, free, total, missing }) =>
    missing === undefined
      ? `${resource}: needs ${needed}, free ${free} of ${total}`
      : `${resource}: lacks ${missing.join(', ')}`,
  );
  const said = (notClaiming ?? []).map(({ reason, message }) =>
    oneLine(`${reason}${message && `: ${message}`}`),
  );
  const lost = (unable ?? []).map(({ ability, message }) =>
    oneLine(`unable ${ability}${message && `: ${message}`}`),
  );
  return [...(draining ? ['draining'] : []), ...said, ...lost, ...reasons].join('; ') || '-';
}

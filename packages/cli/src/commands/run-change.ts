import { shellWords } from '@longshore/common/shell-words';
import type { Command } from 'commander';
import { CliError, EXIT, refusalText, usageError } from '../cli-error.js';
import { callsService, openSession, type CliContext, type ServiceFlags } from '../command-kit.js';
import { labelChanges } from '../runs/inputs.js';
import { readRunId, readRunIds, RUN_WORDS, takesRun } from '../runs/run-ids.js';
import type { Session } from '../service/session.js';

const MOST_IDS = 100;
const CHANGES = {
  cancel: { path: '/runs/batch/cancel', description: 'cancel runs that have not ended', done: 'cancelled' },
  retry: { path: '/runs/batch/retry', description: 'give runs another attempt', done: 'retried' },
} as const;

/** `run cancel`, `run retry` and `run label`. */
export function addRunChanges(parent: Command, context: CliContext): void {
  addBatches(parent, context);
  addLabel(parent, context);
}

function addLabel(parent: Command, context: CliContext): void {
  const command = takesRun(
    parent.command('label').description('set labels of a run by key=value, and remove them by key-'),
  )
    .argument('[labels...]', 'labels to set or remove')
    .option('--name <name>', 'its new name; empty: none');
  callsService(command, 'run label $RUN team=vision draft-', 'run label $RUN --name nightly').action(
    async (word: string, words: string[], flags: ServiceFlags & { readonly name?: string }) => {
      const labels = labelChanges(words);
      const name = flags.name === undefined ? {} : { name: flags.name === '' ? null : flags.name };
      const session = await openSession(flags, context);
      const id = await readRunId(session, word, context.env);
      const run = await session.ask((init) =>
        session.client.PATCH('/runs/{id}/labels', {
          params: { path: { id } },
          body: { labels, ...name },
          ...init,
        }),
      );
      const { output } = context;
      if (flags.json) await output.json(run);
      else
        await output.line(
          `${id} ${shellWords(Object.entries(run.labels).map((label) => label.join('=')))}`.trimEnd(),
        );
    },
  );
}

interface ChangeFlags extends ServiceFlags {
  readonly reason?: string;
  readonly dependents?: true;
}

/** Each run on its own, exactly once even if a response is lost. */
function addBatches(parent: Command, context: CliContext): void {
  for (const name of ['cancel', 'retry'] as const) {
    const { path, description, done } = CHANGES[name];
    const command = parent
      .command(name)
      .description(description)
      .argument('<run...>', `${RUN_WORDS}; 100 at most`);
    if (name === 'cancel')
      command.option('--reason <text>', 'why, 500 characters at most; shown with the runs');
    else
      command.option('--dependents', 'once they are COMPLETED, open again the runs that they had cancelled');
    callsService(command, `run ${name} $RUN`).action(async (words: string[], flags: ChangeFlags) => {
      if (words.length > MOST_IDS) throw usageError(`${words.length} runs are more than ${MOST_IDS}`);
      const session = await openSession(flags, context);
      const ids = await readRunIds(session, words, context.env);
      if (flags.dependents) {
        await retryWithDependents(session, ids, flags, context);
        return;
      }
      const headers = { 'Idempotency-Key': session.newKey() };
      const body = { ids: [...ids], ...(flags.reason === undefined ? {} : { reason: flags.reason }) };
      const { results } = await session.ask((init) => session.client.POST(path, { body, headers, ...init }));
      const { output } = context;
      if (flags.json) await output.json(...results);
      for (const [index, id] of ids.entries()) {
        const result = results[index];
        const isDone = result?.status === 204;
        if (!isDone) context.end(EXIT.failed);
        if (flags.json) continue;
        const why = result !== undefined && 'error' in result ? refusalText(result.error) : undefined;
        if (isDone) await output.line(`${id} ${done}`);
        else output.note(`${id} not ${done}: ${why ?? 'no answer'}`);
      }
    });
  }
}

/** One after the other: no request for many runs has it. */
async function retryWithDependents(
  session: Session,
  ids: readonly string[],
  { json }: ChangeFlags,
  context: CliContext,
): Promise<void> {
  const { output } = context;
  for (const id of ids) {
    const params = { path: { id }, query: { dependents: true } };
    const headers = { 'Idempotency-Key': session.newKey() };
    try {
      const run = await session.ask((init) =>
        session.client.POST('/runs/{id}/retry', { params, headers, ...init }),
      );
      await (json ? output.json(run) : output.line(`${id} retried`));
    } catch (error) {
      if (!(error instanceof CliError) || error.exitCode !== EXIT.failed) throw error;
      context.end(EXIT.failed);
      output.note(`${id} not retried: ${error.message}`);
    }
  }
}

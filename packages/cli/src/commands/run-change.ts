import type { Command } from 'commander';
import { EXIT, usageError } from '../cli-error.js';
import { callsService, type CliContext, openSession, type ServiceFlags } from '../command-kit.js';
import { refusalText } from '../failures.js';

const MOST_IDS = 100;
const CHANGES = {
  cancel: { path: '/runs/batch/cancel', description: 'cancel runs that have not ended', done: 'cancelled' },
  retry: { path: '/runs/batch/retry', description: 'give runs another attempt', done: 'retried' },
} as const;

/** `run cancel` and `run retry`: each run on its own, exactly once even if a response is lost. */
export function addRunChanges(parent: Command, context: CliContext): void {
  for (const name of ['cancel', 'retry'] as const) {
    const { path, description, done } = CHANGES[name];
    const command = parent
      .command(name)
      .description(description)
      .argument('<id...>', 'ids of runs, 100 at most');
    if (name === 'cancel')
      command.option('--reason <text>', 'why, 500 characters at most; shown with the runs');
    callsService(command, `run ${name} $RUN`).action(
      async (ids: string[], flags: ServiceFlags & { readonly reason?: string }) => {
        if (ids.length > MOST_IDS) throw usageError(`${ids.length} ids are more than ${MOST_IDS}`);
        const session = await openSession(flags, context);
        const headers = { 'Idempotency-Key': session.newKey() };
        const body = { ids, ...(flags.reason === undefined ? {} : { reason: flags.reason }) };
        const { results } = await session.ask((init) =>
          session.client.POST(path, { body, headers, ...init }),
        );
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
      },
    );
  }
}

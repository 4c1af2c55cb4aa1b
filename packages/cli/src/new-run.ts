import type { Schemas } from '@longshore/client';
import type { CliContext } from './cli-context.js';
import { CliError, EXIT } from './cli-error.js';
import { followRun } from './follow-run.js';
import { followOptions, type NewRunFlags } from './run-flags.js';
import type { Answered, CallInit, Session } from './session.js';

/** What a call that makes a run is made with. */
export interface CreateInit extends CallInit {
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Makes a run, once however often its answer is lost, and follows it if that is wanted.
 * @param call sends the request
 */
export async function makeRun(
  session: Session,
  context: CliContext,
  flags: NewRunFlags,
  call: (init: CreateInit) => Promise<Answered<Schemas['OpRun']>>,
): Promise<void> {
  const key = flags.idempotencyKey ?? session.newKey();
  const headers = { 'Idempotency-Key': key };
  const run = await session
    .ask((init) => call({ ...init, headers }))
    .catch((error: unknown) => {
      if (!(error instanceof CliError) || error.exitCode === EXIT.failed) throw error;
      if (error.exitCode === EXIT.interrupted || error.mayHaveArrived) {
        const hint = `the run may have been created: the same command with --idempotency-key ${key} tells`;
        throw new CliError(error.exitCode, `${error.message}; ${hint}`);
      }
      throw error;
    });
  const { output } = context;
  if (flags.wait !== true) {
    await (flags.json ? output.json(run) : output.line(run.id));
    return;
  }
  if (!flags.json) output.note(`run ${run.id}`);
  context.end(await followRun(session, run.id, followOptions(flags)));
}

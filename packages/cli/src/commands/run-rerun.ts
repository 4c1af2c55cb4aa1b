import type { JsonObject } from '@longshore/common/json/json-value';
import { Option, type Command } from 'commander';
import { usageError } from '../cli-error.js';
import { callsService, openSession, type CliContext, type ServiceFlags } from '../command-kit.js';
import { readArtifacts } from '../runs/artifact-flags.js';
import { makeRun, readImageRun, takesImageRunFlags, type ImageRunFlags } from '../runs/new-run.js';
import { AFTER_DASHES, splitOperands, unknownWordError } from '../runs/operands.js';
import { readRunId, takesRun } from '../runs/run-ids.js';
import { runPreview } from '../runs/run-view.js';
import type { Session } from '../service/session.js';

interface RerunFlags extends ServiceFlags, ImageRunFlags {
  readonly json?: true;
  readonly image?: string;
  readonly definitionVersion?: string;
  readonly dryRun?: true;
}

/** `run rerun` */
export function addRerun(parent: Command, context: CliContext): void {
  const command = takesRun(
    parent
      .command('rerun')
      .description(
        'create a run like one that has ended, and print its id; a flag replaces the whole field of its request: --ram-mb all constraints',
      ),
  )
    .option('--image <image>', 'another container image; not for a run of a definition')
    .option('--definition-version <version>', 'same (that of the run), latest, or a version (default: same)')
    .addOption(
      new Option('--dry-run', 'print what the run would be, and create nothing').conflicts([
        'wait',
        'idempotencyKey',
      ]),
    );
  takesImageRunFlags(command);
  callsService(
    command,
    'run rerun $RUN --wait',
    'run rerun nightly --ram-mb 4096 --label attempt=second',
    'run rerun @last --definition-version latest --dry-run',
  ).action(async (word: string, words: readonly string[], flags: RerunFlags) => {
    if (word.startsWith('-')) throw usageError(`the run comes first, then ${word}`);
    const { unknown, args } = splitOperands(words, context.argv);
    if (unknown[0] !== undefined)
      throw unknownWordError(unknown[0], command, { names: [], hint: AFTER_DASHES });
    const session = await openSession(flags, context);
    const path = { id: await readRunId(session, word, context.env) };
    const body = await readRerun(flags, args, session, context);
    if (flags.dryRun !== true) {
      await makeRun(session, context, flags, (init) =>
        session.client.POST('/runs/{id}/rerun', { params: { path }, body, ...init }),
      );
      return;
    }
    const params = { path, query: { dry_run: true } };
    const run = await session.ask((init) =>
      session.client.POST('/runs/{id}/rerun', { params, body, ...init }),
    );
    const { output } = context;
    await (flags.json ? output.json(run) : output.write(runPreview(run, output.colours)));
  });
}

/** The body of the request: only what the flags say. */
async function readRerun(
  flags: RerunFlags,
  operands: readonly string[],
  session: Session,
  context: CliContext,
) {
  const { image, definitionVersion, input, inputText, inputs } = flags;
  const { inputs: read, ...others } = await readImageRun(flags, operands, context);
  const changes: JsonObject = Object({
    ...(image !== undefined && { image }),
    ...((input ?? inputText ?? inputs) !== undefined && { inputs: read }),
    ...others,
    ...(await readArtifacts(flags, session, context.env)),
  });
  return {
    ...(definitionVersion !== undefined && { definition_version: definitionVersion }),
    ...(Object.keys(changes).length > 0 && { changes }),
  };
}

import { composeJson } from '@longshore/common/json/json-text';
import type { Command } from 'commander';
import { Planner, type Step } from '../catalog/planner.js';
import { readEntries } from '../catalog/read-entries.js';
import { CliError, EXIT, usageError } from '../cli-error.js';
import { withLocalFiles } from '../runs/local-files.js';
import { callsService, openSession, type CliContext, type ServiceFlags } from '../command-kit.js';

interface ApplyFlags extends ServiceFlags {
  readonly file: string;
  readonly set?: string;
  readonly prune?: true;
  readonly overwrite?: true;
  readonly dryRun?: true;
}

/** Characters of a value in a plan. */
const MOST_SHOWN = 120;

/** `apply` */
export function addApply(program: Command, context: CliContext): void {
  const command = program
    .command('apply')
    .description('store the definitions and schedules of a folder of files, as far as they differ')
    .requiredOption(
      '-f, --file <path>',
      'a folder, with the files *.json, *.yaml and *.yml in it and below it, or one file; - for standard input',
    )
    .option('--set <name>', 'name of the set of files (default: that of the entry with kind: set)')
    .option('--prune', 'delete what this set has stored and has in no file')
    .option('--overwrite', 'also change what was changed or made by others')
    .option('--dry-run', 'print the plan, and change nothing; exit code 2: it would change something');
  callsService(command, 'apply -f jobs --set prod --dry-run', 'apply -f jobs --set prod --prune').action(
    async (flags: ApplyFlags) => {
      const { entries, set } = await readEntries(flags.file, context.stdin);
      const name = flags.set ?? set;
      if (name === undefined)
        throw usageError('name the set: --set NAME, or an entry with kind: set and name: NAME');
      const session = await openSession(flags, context);
      const jobs = entries.map(({ job }) => job);
      await withLocalFiles(session, jobs, {}, async (local) => {
        const steps = await new Planner(session, name, local).plan(entries, flags.prune === true);
        await printPlan(steps, flags, context);
        await carryOut(steps, flags, context);
      });
    },
  );
}

async function printPlan(
  steps: readonly Step[],
  { json }: ApplyFlags,
  { output }: CliContext,
): Promise<void> {
  if (json) {
    await output.json(...steps.map(toJson));
    return;
  }
  await output.write(steps.map(stepText).join(''));
  const count = (action: Step['action']): number => steps.filter((step) => step.action === action).length;
  const counts = `${count('create')} to create, ${count('change')} to change, ${count('prune')} to prune`;
  await output.line(`${counts}, ${count('unchanged')} unchanged`);
}

async function carryOut(
  steps: readonly Step[],
  { json, dryRun, overwrite }: ApplyFlags,
  context: CliContext,
): Promise<void> {
  const conflicts = steps.filter(({ conflict }) => conflict !== undefined).length;
  if (conflicts > 0 && !overwrite)
    throw new CliError(
      EXIT.failed,
      `${conflicts} conflicts, nothing was changed; --overwrite puts the files first`,
    );
  const all = steps.filter(({ run }) => run !== undefined);
  if (dryRun) {
    context.end(all.length === 0 ? EXIT.ok : EXIT.wouldChange);
    return;
  }
  for (const [done, { run, action, kind, key }] of all.entries()) {
    await run?.().catch((error: unknown) => {
      if (!(error instanceof CliError)) throw error;
      const place = `${kind} ${key}: ${error.message}; ${done} of ${all.length} done`;
      throw new CliError(error.exitCode, `${place}, the same command goes on`);
    });
    if (!json) await context.output.line(`${kind} ${key} ${DONE[action]}`);
  }
}

const DONE = { create: 'created', change: 'changed', prune: 'deleted', unchanged: '' } as const;

function stepText({ action, kind, key, changes, conflict, note }: Step): string {
  const notes = [note, conflict && `CONFLICT: ${conflict}`].filter((text) => text !== undefined).join('; ');
  const lines = changes.map(({ field, before, after }) => `    ${field}: ${cut(before)} -> ${cut(after)}\n`);
  return `${action.padEnd(9)}  ${kind} ${key}${notes === '' ? '' : `  (${notes})`}\n${lines.join('')}`;
}

function cut(text = 'null'): string {
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}...` : text;
}

function toJson({ action, kind, key, changes, conflict, note }: Step): object {
  const shown = changes.map(({ field, before = 'null', after = 'null' }) =>
    composeJson([
      ['field', JSON.stringify(field)],
      ['before', before],
      ['after', after],
    ]),
  );
  return { action, kind, key, note: note ?? null, conflict: conflict ?? null, changes: shown };
}

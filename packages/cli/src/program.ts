import tab from '@bomb.sh/tab/commander';
import { nearestName } from '@longshore/common/nearest-name';
import { packageVersion } from '@longshore/common/settings/package-version';
import { Command } from 'commander';
import type { CliContext } from './command-kit.js';
import { completeFromService } from './completion.js';
import { addApply } from './commands/apply.js';
import { addBulk } from './commands/bulk.js';
import { addCapacity } from './commands/capacity.js';
import { addDefinitions } from './commands/definitions.js';
import { addFeed } from './commands/feed.js';
import { addGroups } from './commands/groups.js';
import { addKeys } from './commands/keys.js';
import { addLogin } from './commands/login.js';
import { addPauses } from './commands/pauses.js';
import { addPrograms } from './commands/programs.js';
import { addRunChanges } from './commands/run-change.js';
import { addRunCreate } from './commands/run-create.js';
import { addRunFiles } from './commands/run-files.js';
import { addRunLists } from './commands/run-list.js';
import { addRerun } from './commands/run-rerun.js';
import { addRunReading } from './commands/run-read.js';
import { addRunWatching } from './commands/run-watch.js';
import { addSchedules } from './commands/schedules.js';
import { addSecrets } from './commands/secrets.js';
import { addWebhooks } from './commands/webhooks.js';
import { addWorkers } from './commands/workers.js';

const AFTERWORD = `
Exit codes: 0 done, of a run that is followed COMPLETED; 1 refused, or the run is FAILED or CANCELLED; 2 wrong arguments,
of apply --dry-run also that something would change; 3 the service gives no answer or refuses the key; 130 Ctrl-C.

Every command has a --help with examples. Start with: longshore login`;

/** The command line. Parsing throws a CommanderError instead of ending the process. */
export function makeProgram(context: CliContext): Command {
  const program = new Command('longshore')
    .description('Create and follow runs of container images, and operate the service.')
    .version(packageVersion(), '--version', 'print the version')
    .helpOption('-h, --help', 'print this text')
    .helpCommand(false)
    .enablePositionalOptions()
    .exitOverride()
    .addHelpText('after', AFTERWORD)
    .configureOutput({
      outputError: (text, write) => write(text.replace(/^error: /, 'longshore: ')),
    });
  addPrograms(program, context);
  const run = program.command('run').helpCommand(false).description('runs: create, show, follow, change');
  addRunCreate(run, context);
  addRunLists(run, context);
  addRunReading(run, context);
  addRunWatching(run, context);
  addRunFiles(run, context);
  addRunChanges(run, context);
  addRerun(run, context);
  addBulk(program, context);
  addDefinitions(program, context);
  addGroups(program, context);
  addSchedules(program, context);
  addApply(program, context);
  addWorkers(program, context);
  addCapacity(program, context);
  addPauses(program, context);
  addFeed(program, context);
  addKeys(program, context);
  addSecrets(program, context);
  addWebhooks(program, context);
  addLogin(program, context);
  completeFromService(program, tab(program, { completionCommandName: 'completion' }), context);
  return program;
}

/**
 * Checks the names of the commands of a command line. Commander shows the help of the command above an unknown one with `--help`.
 * @throws CommanderError that names the commands there are, after it has printed it
 */
export function checkCommandNames(program: Command, argv: readonly string[]): void {
  let command = program;
  for (const word of argv) {
    if (command.commands.length === 0 || word.startsWith('-')) return;
    const next = command.commands.find((one) => one.name() === word);
    if (next !== undefined) {
      command = next;
      continue;
    }
    const names = command
      .createHelp()
      .visibleCommands(command)
      .map((one) => one.name());
    const meant = meantBy(word, program, command);
    const hint = meant.length === 0 ? '' : `. Did you mean ${meant.join(' or ')}?`;
    command.error(`error: unknown command '${word}': the commands are ${names.join(', ')}${hint}`, {
      code: 'commander.unknownCommand',
    });
  }
}

/** What other tools call a command. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  ps: 'list',
  ls: 'list',
  jobs: 'list',
  runs: 'list',
  submit: 'create',
  start: 'create',
  log: 'logs',
  attach: 'watch',
  follow: 'watch',
  inspect: 'get',
  show: 'get',
  status: 'get',
  describe: 'get',
  kill: 'cancel',
  stop: 'cancel',
  abort: 'cancel',
  why: 'explain',
};

/** The command lines that a word that is no command was probably meant for. */
function meantBy(word: string, program: Command, command: Command): readonly string[] {
  const run = program.commands.find((one) => one.name() === 'run');
  const groups = [command, ...(command === program && run !== undefined ? [run] : [])];
  const name = Object.hasOwn(OTHER_NAMES, word) ? OTHER_NAMES[word] : word;
  for (const wanted of [name, nearestIn(groups, word)]) {
    const found = groups.flatMap((group) => group.commands.filter((one) => one.name() === wanted));
    if (found.length > 0) return found.map((one) => `'${pathOf(one)}'`);
  }
  return [];
}

function nearestIn(groups: readonly Command[], word: string): string | undefined {
  return nearestName(
    word,
    groups.flatMap((group) => group.commands.map((one) => one.name())),
  );
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

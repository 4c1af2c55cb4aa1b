import { Option, type Command } from 'commander';
import { SETTING_KEYS } from '../../settings/setting-keys.js';
import { becomeProgram } from '../become-program.js';
import type { CliContext } from '../cli-context.js';
import { withExamples } from '../command-kit.js';

/** `serve`: the service itself reads the arguments, so that they mean the same however it is started. */
export function addServe(program: Command, { argv }: Pick<CliContext, 'argv'>): void {
  const command = program
    .command('serve')
    .description('start the service: every setting has a flag and a variable, the flag wins')
    .allowUnknownOption()
    .allowExcessArguments();
  const secrets: string[] = [];
  for (const { flag, env, kind, allowed, description, ...key } of SETTING_KEYS) {
    const text = `${description} Must be ${allowed}. Default: ${key.default ?? 'unset'}. (${env})`;
    if (flag === undefined) secrets.push(`  ${env}\n      ${text}`);
    else command.addOption(new Option(`--${flag}${kind === 'boolean' ? ' [value]' : ' <value>'}`, text));
  }
  command.addHelpText('after', `\nSecrets, by variable only:\n${secrets.join('\n')}`);
  withExamples(command, 'serve', 'serve --port 5556 --log-level warning').action(async () => {
    await becomeProgram('main.js', argv.slice(argv.indexOf('serve') + 1));
  });
}

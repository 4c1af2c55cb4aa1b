import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'vitest';
import type { Command } from 'commander';
import type { CliContext } from './command-kit.js';
import { Output } from './output.js';
import { makeProgram } from './program.js';

/** The commands that do something. `serve` and `worker` start programs for their help, `complete` is for shells. */
function leaves(command: Command): readonly Command[] {
  const { commands } = command;
  if (commands.length > 0) return commands.flatMap(leaves);
  return ['serve', 'worker', 'complete'].includes(command.name()) ? [] : [command];
}

const neverStopped = (): AbortSignal => new AbortController().signal;

function contextOf(): CliContext {
  return {
    env: {},
    stdin: process.stdin,
    output: new Output(new PassThrough(), new PassThrough(), {}),
    argv: [],
    stop: neverStopped,
    end: () => undefined,
  };
}

test('every example of a help is a command line that starts with the program', () => {
  const context = contextOf();
  let count = 0;
  for (const command of leaves(makeProgram(context))) {
    let help = '';
    command.configureOutput({ writeOut: (text) => (help += text) });
    command.outputHelp();
    const [, examples = ''] = help.split('\nExamples:\n');
    for (const example of examples.split('\n').filter((text) => text !== '')) {
      count += 1;
      assert.equal(example.match(/longshore(?= )/g)?.length, 1, example);
      assert.match(example, /^ {2}longshore /);
    }
  }
  assert.ok(count > 20, `${count} examples`);
});

test('a key that would end in the past is refused before the service is asked', async () => {
  for (const expires of ['90', '0d', '2001-01-01']) {
    const program = makeProgram(contextOf());
    for (const command of leaves(program)) command.configureOutput({ writeErr: () => undefined });
    const args = ['keys', 'create', 'y', '--scope', 'client', '--expires', expires];
    await assert.rejects(program.parseAsync(args, { from: 'user' }), {
      code: 'commander.invalidArgument',
      message: /It must be a span such as 90d, or a time in the future\.$/,
    });
  }
});

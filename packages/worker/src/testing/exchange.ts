import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** renameat2, for which Node has no function. */
const NUMBERS: Readonly<Partial<Record<NodeJS.Architecture, number>>> = { x64: 316, arm64: 276 };

/** The command line of a program that exchanges two entries of folders (RENAME_EXCHANGE) until one of them is gone. */
export function exchangeCommand(one: string, other: string): readonly [string, ...string[]] {
  const number = NUMBERS[process.arch] ?? NUMBERS.x64;
  const script = `$| = 1; print "ready\\n"; my ($a, $b) = @ARGV; 1 while syscall(${number}, -100, $a, -100, $b, 2) == 0;`;
  return ['perl', '-e', script, one, other];
}

/** Executes a task while a program exchanges two entries of folders. */
export async function whileExchanged(one: string, other: string, task: () => Promise<void>): Promise<void> {
  const [command, ...args] = exchangeCommand(one, other);
  const program = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(program, 'exit');
  await once(program.stdout, 'data');
  try {
    await task();
  } finally {
    program.kill('SIGKILL');
    await ended;
  }
}

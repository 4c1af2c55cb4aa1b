import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import type { CliContext } from './cli-context.js';
import { CliError, EXIT } from './cli-error.js';

type Asker = Pick<CliContext, 'stdin' | 'output' | 'stop'>;

/** Asks for a line on the terminal. @throws CliError at Ctrl-C */
export function askLine(question: string, asker: Asker): Promise<string> {
  return ask(question, asker, (text) => asker.output.prompt(text));
}

/** Asks for a line on the terminal, which does not show what is typed. @throws CliError at Ctrl-C */
export async function askSecret(question: string, asker: Asker): Promise<string> {
  asker.output.prompt(question);
  const secret = await ask('', asker, () => undefined);
  asker.output.prompt('\n');
  return secret;
}

async function ask(question: string, { stdin, stop }: Asker, echo: (text: string) => void): Promise<string> {
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      echo(chunk.toString());
      done();
    },
  });
  const lines = createInterface({ input: stdin, output, terminal: true });
  const left = new AbortController();
  // In this mode the terminal sends Ctrl-C as a character, and Ctrl-D as an end.
  lines.once('SIGINT', () => left.abort());
  lines.once('close', () => left.abort());
  try {
    return (await lines.question(question, { signal: AbortSignal.any([stop(), left.signal]) })).trim();
  } catch {
    throw new CliError(EXIT.interrupted, 'interrupted');
  } finally {
    lines.close();
  }
}

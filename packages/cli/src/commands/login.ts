import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { text as readAll } from 'node:stream/consumers';
import type { Command } from 'commander';
import { proxyFor } from '@longshore/common/environment-proxy';
import { oneLine } from '@longshore/common/shown-text';
import { CliError, EXIT, usageError } from '../cli-error.js';
import { withExamples, type CliContext } from '../command-kit.js';
import {
  checkKey,
  chooseUrl,
  configPath,
  deleteLogin,
  keyOfEnvironment,
  readLogin,
  readUrl,
  saveLogin,
  type ConnectionFlags,
} from '../service/connection.js';
import { Session } from '../service/session.js';

/** `login` and `logout` */
export function addLogin(program: Command, context: CliContext): void {
  const { env, output } = context;
  withExamples(
    program
      .command('login')
      .description('check a key and save it with the URL of the service, readable by this user only')
      .option('--url <url>', 'the service (default: SERVICE_URL, else asked for)')
      .option('--key <key>', 'the API key; - or a pipe reads it from standard input (default: asked for)'),
    'login',
    'login --url http://127.0.0.1:5555 --key - < .data/admin-key',
  ).action(async (flags: ConnectionFlags) => {
    const url = await findUrl(flags, context);
    const apiKey = checkKey(await findKey(flags, context));
    const session = new Session({ url, apiKey }, output, context.stop(), proxyFor(url, context.env));
    const {
      name,
      scopes,
      expires_at: expires,
    } = await session.ask((init) => session.client.GET('/whoami', { ...init }));
    const path = await saveLogin(env, { url, apiKey });
    const until = expires === null ? '' : `, until ${expires}`;
    await output.line(`logged in at ${url} as ${oneLine(name)} (${scopes.join(', ')}${until})`);
    output.note(`kept in ${path}`);
    for (const variable of ['SERVICE_URL', 'SERVICE_API_KEY', 'SERVICE_API_KEY_FILE']) {
      if (env[variable]) output.note(`${variable} is set and wins over what was kept`);
    }
  });
  program
    .command('logout')
    .description('delete the saved URL and key')
    .action(async () => {
      const wasThere = await deleteLogin(env);
      await output.line(wasThere ? `removed ${configPath(env)}` : 'nothing was kept');
    });
}

async function findUrl(flags: ConnectionFlags, context: CliContext): Promise<string> {
  const { env, stdin } = context;
  // What cannot be read is about to be replaced.
  const kept = await readLogin(env).catch(() => undefined);
  const url = chooseUrl(flags, env, kept);
  if (flags.url !== undefined || env['SERVICE_URL'] || stdin.isTTY !== true || flags.key === '-') return url;
  return readUrl((await askLine(`URL of the service [${url}]: `, context)) || url);
}

async function findKey(flags: ConnectionFlags, context: CliContext): Promise<string> {
  if (flags.key !== undefined && flags.key !== '-') return flags.key;
  const { env, stdin } = context;
  const given = flags.key === undefined ? keyOfEnvironment(env) : undefined;
  if (given !== undefined) return given;
  const isAsked = stdin.isTTY === true && flags.key === undefined;
  const key = (isAsked ? await askSecret('API key: ', context) : await readAll(stdin)).trim();
  if (key === '') throw usageError('no API key was given');
  return key;
}

type Asker = Pick<CliContext, 'stdin' | 'output' | 'stop'>;

/** Asks for a line on the terminal. @throws CliError at Ctrl-C */
function askLine(question: string, asker: Asker): Promise<string> {
  return ask(question, asker, (text) => asker.output.prompt(text));
}

/** Asks for a line on the terminal without echo. @throws CliError at Ctrl-C */
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

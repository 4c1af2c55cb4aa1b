import type { Readable } from 'node:stream';
import type { LongshoreClient } from '@longshore/client';
import { proxyFor } from '@longshore/common/environment-proxy';
import { readTime, TIME_FORM } from '@longshore/common/json/read-time';
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { ExitCode } from './cli-error.js';
import { chooseConnection, readLogin, type ConnectionFlags } from './service/connection.js';
import type { Output } from './terminal/output.js';
import { Session, type Answered, type CallInit } from './service/session.js';
import { formatTable, type Column } from './terminal/table.js';

/** Flags of every command that calls the service. */
export interface ServiceFlags extends ConnectionFlags {
  readonly json?: true;
}

/** Adds `--url`, `--key`, `--json` and examples. @param examples command lines without the program */
export function callsService(command: Command, ...examples: string[]): Command {
  command.option('--json', 'print the JSON of the API, one value per line');
  return withExamples(withConnectionFlags(command), ...examples);
}

/** Adds `--url` and `--key`. */
export function withConnectionFlags(command: Command): Command {
  return command
    .option('--url <url>', 'URL of the service (default: SERVICE_URL, then the saved login)')
    .option(
      '--key <key>',
      'API key, visible in process lists (default: SERVICE_API_KEY, then the saved login)',
    );
}

/** Adds examples to the help text. @param examples command lines without the program */
export function withExamples(command: Command, ...examples: string[]): Command {
  const lines = examples.map((example) => `  longshore ${example}`).join('\n');
  return command.addHelpText('after', `\nExamples:\n${lines}`);
}

/** Opens a session with the service named by flags, environment or saved login. @throws CliError without a key */
export async function openSession(flags: ConnectionFlags, context: CliContext): Promise<Session> {
  const { env } = context;
  // A broken login file must not fail a command that does not need it.
  const isSaid =
    (flags.url ?? env['SERVICE_URL']) &&
    (flags.key ?? (env['SERVICE_API_KEY'] || env['SERVICE_API_KEY_FILE']));
  const kept = isSaid ? undefined : await readLogin(env);
  const connection = chooseConnection(flags, env, kept);
  return new Session(connection, context.output, context.stop(), proxyFor(connection.url, env));
}

/** What a command that prints a paged list asks for and shows. */
export interface ListOptions<T> {
  readonly columns: readonly Column<T>[];
  /** Printed to standard error when there are no rows. */
  readonly empty: string;
  /** Asks for a page; an empty one ends the list. */
  readonly page: (client: LongshoreClient, asked: CallInit & PageParams) => Promise<Answered<readonly T[]>>;
  readonly cursorOf: (row: T) => string;
  /** The most that the API gives at once, if that is not 1,000. */
  readonly pageSize?: number;
}

interface PageParams {
  readonly params: { readonly query: { readonly limit: number; readonly after?: string } };
}

const PAGE = 1000;

/** Asks for all pages of a list, one after the other. */
export async function* readPages<T>(
  session: Session,
  { page, cursorOf, pageSize = PAGE }: Pick<ListOptions<T>, 'page' | 'cursorOf' | 'pageSize'>,
): AsyncGenerator<readonly T[]> {
  for (let after: string | undefined; ;) {
    const params = { query: { limit: pageSize, ...(after === undefined ? {} : { after }) } };
    const rows = await session.ask((init) => page(session.client, { params, ...init }));
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    after = cursorOf(last);
  }
}

/** Makes a command print all pages of a list: as a table, or with `--json` as one value per line. */
export function printsList<T>(
  command: Command,
  example: string,
  context: CliContext,
  { columns, empty, ...pages }: ListOptions<T>,
): void {
  callsService(command, example).action(async ({ json, ...flags }: ServiceFlags) => {
    const session = await openSession(flags, context);
    const { output } = context;
    const all: T[] = [];
    for await (const rows of readPages(session, pages)) {
      if (json) await output.json(...rows);
      else all.push(...rows);
    }
    if (json) return;
    if (all.length === 0) output.note(empty);
    else await output.write(formatTable(columns, all, output));
  });
}

/** Reads an integer within bounds, both inclusive. */
export function integer(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be an integer from ${min} to ${max}.`);
  };
}

/** An option whose value is an integer within bounds, both inclusive. */
export function integerOption(flags: string, description: string, min: number, max: number): Option {
  return new Option(flags, description).argParser(integer(min, max));
}

/** Collects the values of an option that may be given several times. */
export function several(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/**
 * Checks a time: ISO 8601 with a zone, or a span such as `15m`. It stays a text, because a span is counted by the service's clock.
 * @throws InvalidArgumentError for anything else
 */
export function time(text: string): string {
  if (readTime(text, Date.now()) === null) throw new InvalidArgumentError(`It must be ${TIME_FORM}.`);
  return text;
}

/** The process as the commands see it. Tests replace it. */
export interface CliContext {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly output: Output;
  /** Arguments after the program's name. */
  readonly argv: readonly string[];
  /** Sets the exit code of a command that ends without an error; 0 unless set. */
  end(code: ExitCode): void;
  /** Aborts at Ctrl-C. Installs the signal handlers with the first call. */
  stop(): AbortSignal;
}

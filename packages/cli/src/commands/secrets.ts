import { buffer as readAll } from 'node:stream/consumers';
import type { Schemas } from '@longshore/client';
import { textOrBytes } from '@longshore/common/binary';
import type { Command } from 'commander';
import { usageError } from '../cli-error.js';
import { callsService, openSession, printsList, type CliContext, type ServiceFlags } from '../command-kit.js';
import { readBytes } from '../runs/inputs.js';
import { ago, type Column } from '../terminal/table.js';
import { askSecret } from './login.js';

type Secret = Schemas['Secret'];

const COLUMNS: readonly Column<Secret>[] = [
  { title: 'NAME', text: ({ name }) => name },
  { title: 'KIND', text: ({ kind }) => kind },
  { title: 'AGE', text: ({ created_at: t }) => ago(t) },
  { title: 'CHANGED', text: ({ updated_at: t }) => ago(t) },
];

/** `secrets ...` */
export function addSecrets(program: Command, context: CliContext): void {
  const parent = program
    .command('secrets')
    .helpCommand(false)
    .description('secrets of runs, by their names; needs a key with the scope admin');
  addList(parent, context);
  addSet(parent, context);
  addDelete(parent, context);
  addRotate(parent, context);
}

function addList(parent: Command, context: CliContext): void {
  const command = parent.command('list').description('list names, kinds and times; never values');
  printsList(command, 'secrets list', context, {
    columns: COLUMNS,
    empty: 'no secrets',
    page: (client, asked) => client.GET('/secrets', { ...asked }),
    cursorOf: ({ name }) => name,
  });
}

interface SetFlags extends ServiceFlags {
  readonly file?: string;
  readonly server?: string;
  readonly username?: string;
  readonly map?: true;
}

function addSet(parent: Command, context: CliContext): void {
  const command = parent
    .command('set')
    .description('create or replace a secret; the value or password comes from standard input or a file')
    .argument('<name>', 'name of the secret')
    .option('-f, --file <file>', 'read the value from this file, to its last byte')
    .option('--server <host>', 'a login for this registry, for --image-pull-secret')
    .option('--username <name>', 'user of the login; its password is the value')
    .option('--map', 'the value is a JSON object of environment variables, for --secrets-from');
  callsService(
    command,
    'secrets set hub-token < token.txt',
    'secrets set tls-key --file key.pem',
    'secrets set keystore --file key.p12',
    'secrets set registry --server ghcr.io --username ada < password.txt',
    'secrets set s3-credentials --map --file variables.json',
  ).action(async (name: string, flags: SetFlags) => {
    const { server, username, map } = flags;
    if (map && server !== undefined) throw usageError('only one of --map and --server may be given');
    if ((server === undefined) !== (username === undefined)) {
      throw usageError('a login needs both --server and --username');
    }
    const value = await readValue(flags, context);
    const body = toInput(flags, value);
    const session = await openSession(flags, context);
    const params = { path: { name } };
    const { data, response } = await session.answer((init) =>
      session.client.PUT('/secrets/{name}', { params, body, ...init }),
    );
    const done = response.status === 201 ? 'created' : 'replaced';
    const { output } = context;
    await (flags.json ? output.json(data) : output.line(`${data.name} ${done}`));
  });
}

function addDelete(parent: Command, context: CliContext): void {
  const command = parent
    .command('delete')
    .description('delete a secret; runs that need it fail')
    .argument('<name>', 'name of the secret');
  callsService(command, 'secrets delete hub-token').action(async (name: string, flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const params = { path: { name } };
    await session.ask((init) => session.client.DELETE('/secrets/{name}', { params, ...init }));
    if (!flags.json) await context.output.line(`${name} deleted`);
  });
}

function addRotate(parent: Command, context: CliContext): void {
  const command = parent
    .command('rotate')
    .description('encrypt every secret with the first key of SERVICE_SECRETS_KEY');
  callsService(command, 'secrets rotate').action(async (flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const { output } = context;
    let rotated = 0;
    for (;;) {
      const done = await session.ask((init) => session.client.POST('/secrets/rotate', { ...init }));
      rotated += done.rotated;
      if (done.remaining > 0 && done.rotated > 0) continue;
      await (flags.json
        ? output.json({ ...done, rotated })
        : output.line(`${rotated} encrypted anew, ${done.remaining} left`));
      return;
    }
  });
}

/** @throws CliError for bytes where only a text can be */
function toInput({ server, username, map }: SetFlags, value: string | Buffer): Schemas['SecretInput'] {
  if (server === undefined || username === undefined) {
    if (typeof value === 'string') return { kind: map ? 'map' : 'opaque', value };
    if (!map) return { kind: 'opaque', value_base64: value.toString('base64') };
  } else if (typeof value === 'string')
    return { kind: 'registry', value: { server, username, password: value } };
  throw usageError(
    'the value is not UTF-8 text without NUL, which only a secret without --map and --server may be',
  );
}

/** The value: never an argument, which process lists show. @throws CliError when it cannot be read or is empty */
async function readValue({ file }: SetFlags, context: CliContext): Promise<string | Buffer> {
  const value = file === undefined ? await readGiven(context) : textOrBytes(await readBytes(file));
  if (value.length === 0) throw usageError('no value was given');
  return value;
}

/** From a terminal without echo; from a pipe, of a text without the line feed that commands such as `echo` add. */
async function readGiven(context: CliContext): Promise<string | Buffer> {
  const { stdin } = context;
  if (stdin.isTTY === true) return askSecret('Value: ', context);
  const value = textOrBytes(await readAll(stdin));
  return typeof value === 'string' ? value.replace(/\r?\n$/, '') : value;
}

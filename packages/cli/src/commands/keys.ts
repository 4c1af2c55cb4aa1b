import type { Schemas } from '@longshore/client';
import { SCOPES, type Scope } from '@longshore/client/constants';
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  callsService,
  type CliContext,
  openSession,
  printsList,
  type ServiceFlags,
  time,
} from '../command-kit.js';
import { ago, type Column } from '../terminal/table.js';

type ApiKey = Schemas['ApiKey'];

const COLUMNS: readonly Column<ApiKey>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'NAME', text: ({ name }) => name, isElastic: true },
  { title: 'PREFIX', text: ({ prefix }) => prefix },
  { title: 'SCOPES', text: ({ scopes }) => scopes.join(',') },
  { title: 'BOUND TO', text: bindingOf, isElastic: true },
  { title: 'AGE', text: ({ created_at: t }) => ago(t) },
  { title: 'USED', text: ({ last_used_at: t }) => ago(t) },
  { title: 'STATE', text: stateOf, colour: (key) => (stateOf(key) === 'valid' ? 'green' : 'red') },
];

/** `keys ...` */
export function addKeys(program: Command, context: CliContext): void {
  const parent = program
    .command('keys')
    .helpCommand(false)
    .description('API keys; needs a key with the scope admin');
  addCreate(parent, context);
  addList(parent, context);
  addRevoke(parent, context);
}

function addCreate(parent: Command, context: CliContext): void {
  const command = parent
    .command('create')
    .description('create a key and print it; it is shown only once')
    .argument('<name>', 'name of the key')
    .addOption(
      new Option('-s, --scope <scope>', `one of ${SCOPES.join(', ')}; may be given several times`)
        .argParser(severalScopes)
        .makeOptionMandatory(),
    )
    .option(
      '-w, --worker <id...>',
      'worker that the key is bound to, or the beginning of ids followed by *; only with --scope worker',
    )
    .option(
      '--tag <tag...>',
      "tag that the key's workers may have, no others; '' for none; only with --scope worker",
    )
    .option(
      '--capability <name...>',
      "capability that the key's workers may have, no others; '' for none; only with --scope worker",
    )
    .option('--expires <time>', 'when it ends: 90d, or ISO 8601 with a zone (else never)', time);
  callsService(
    command,
    'keys create ci --scope client --expires 90d',
    "keys create gpus --scope worker --worker 'gpu-*' --tag gpu eu",
  ).action(
    async (
      name: string,
      flags: ServiceFlags & {
        readonly scope: readonly Scope[];
        readonly worker?: readonly string[];
        readonly tag?: readonly string[];
        readonly capability?: readonly string[];
        readonly expires?: string;
      },
    ) => {
      const session = await openSession(flags, context);
      const body = {
        name,
        scopes: [...flags.scope],
        ...(flags.worker === undefined ? {} : { worker_ids: [...flags.worker] }),
        ...(flags.tag === undefined ? {} : { worker_tags: withoutEmpty(flags.tag) }),
        ...(flags.capability === undefined ? {} : { worker_capabilities: withoutEmpty(flags.capability) }),
        ...(flags.expires === undefined ? {} : { expires_at: flags.expires }),
      };
      const made = await session.askOnce((init) => session.client.POST('/api-keys', { body, ...init }));
      const { output } = context;
      if (flags.json) {
        await output.json(made);
        return;
      }
      output.note(`key ${made.id} (${made.scopes.join(', ')}), shown this once:`);
      await output.line(made.key);
    },
  );
}

function addList(parent: Command, context: CliContext): void {
  const command = parent.command('list').description('list keys, newest first, ended ones too');
  printsList(command, 'keys list', context, {
    columns: COLUMNS,
    empty: 'no keys but those that the service was started with',
    page: (client, asked) => client.GET('/api-keys', { ...asked }),
    cursorOf: ({ id }) => id,
  });
}

function addRevoke(parent: Command, context: CliContext): void {
  const command = parent
    .command('revoke')
    .description('revoke a key')
    .argument('<id>', 'id of the key, as keys list shows it');
  callsService(command, 'keys revoke $KEY_ID').action(async (id: string, flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const params = { path: { id } };
    await session.ask((init) => session.client.DELETE('/api-keys/{id}', { params, ...init }));
    if (!flags.json) await context.output.line(`${id} revoked`);
  });
}

function severalScopes(text: string, before: readonly Scope[] = []): readonly Scope[] {
  const scope = SCOPES.find((one) => one === text);
  if (scope === undefined) throw new InvalidArgumentError(`It must be one of ${SCOPES.join(', ')}.`);
  return [...before, scope];
}

/** An empty text stands for none. */
function withoutEmpty(names: readonly string[]): string[] {
  return names.filter((name) => name !== '');
}

/** As SERVICE_API_KEYS has it: ids, `tag:NAME`, `capability:NAME`; an empty name stands for none. */
function bindingOf({
  worker_ids: ids,
  worker_tags: tags,
  worker_capabilities: capabilities,
}: ApiKey): string {
  const all = [...(ids ?? []), ...named('tag', tags), ...named('capability', capabilities)];
  return all.length === 0 ? '-' : all.join(',');
}

function named(kind: string, names: readonly string[] | null): string[] {
  return (names?.length === 0 ? [''] : (names ?? [])).map((name) => `${kind}:${name}`);
}

function stateOf({ revoked_at: revoked, expires_at: expires }: ApiKey): string {
  if (revoked !== null) return 'revoked';
  return expires !== null && Date.parse(expires) <= Date.now() ? 'expired' : 'valid';
}

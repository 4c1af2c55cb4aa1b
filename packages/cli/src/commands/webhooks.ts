import type { Schemas } from '@longshore/client';
import { Option, type Command } from 'commander';
import {
  callsService,
  type CliContext,
  integerOption,
  openSession,
  type ServiceFlags,
  time,
} from '../command-kit.js';
import type { Session } from '../service/session.js';
import { ago, formatTable, type Column } from '../terminal/table.js';

type Webhook = Schemas['Webhook'];
type Delivery = Schemas['WebhookDelivery'];

const COLUMNS: readonly Column<Webhook>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'URL', text: ({ url }) => url, isElastic: true },
  { title: 'EVENTS', text: ({ events }) => events.join(','), isElastic: true },
  { title: 'STATE', text: stateOf, colour: (webhook) => (stateOf(webhook) === 'ok' ? 'green' : 'red') },
  { title: 'PARKED', text: ({ parked }) => String(parked) },
  { title: 'SUCCESS', text: ({ last_success_at: t }) => ago(t) },
];

const DELIVERY_COLUMNS: readonly Column<Delivery>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'TYPE', text: ({ type }) => type },
  { title: 'SUBJECT', text: ({ subject }) => subject },
  {
    title: 'STATE',
    text: ({ state }) => state,
    colour: ({ state }) => (state === 'delivered' ? 'green' : 'red'),
  },
  { title: 'TRIES', text: ({ tries }) => String(tries) },
  { title: 'STATUS', text: ({ status }) => (status === null ? '-' : String(status)) },
  { title: 'AGE', text: ({ created_at: t }) => ago(t) },
  { title: 'ANSWER', text: ({ detail }) => detail ?? '', isElastic: true },
];

/** `webhook ...` */
export function addWebhooks(program: Command, context: CliContext): void {
  const parent = program
    .command('webhook')
    .helpCommand(false)
    .description('endpoints that are told of events; needs a key with the scope admin');
  const list = parent.command('list').description('list webhooks, the oldest first');
  callsService(list, 'webhook list').action(async (flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const found = await session.ask((init) => session.client.GET('/webhooks', { ...init }));
    await printRows(COLUMNS, found, 'no webhooks', flags, context);
  });
  addChanges(parent, context);
  addActions(parent, context);
  addDeliveries(parent, context);
}

interface FieldFlags extends ServiceFlags {
  readonly endpoint?: string;
  readonly event?: Webhook['events'];
  readonly description?: string;
  readonly topic?: string[];
  readonly definition?: string[];
  readonly schedule?: string[];
  readonly label?: string[];
  readonly outputs?: boolean;
  readonly enable?: true;
  readonly disable?: true;
}

function withFields(command: Command): Command {
  return command
    .option('-e, --event <type...>', 'what it is told of, such as run.failed')
    .option('--description <text>', 'text for people')
    .option('--topic <topic...>', 'only runs with one of these topics')
    .option('--definition <id...>', 'only runs of one of these definitions')
    .option('--schedule <id...>', 'only runs of one of these schedules')
    .option('--label <label...>', 'only runs with one of these labels, as key=value or key')
    .option('--outputs', 'send outputs up to 20 KiB, too');
}

function addChanges(parent: Command, context: CliContext): void {
  const create = withFields(
    parent.command('create').description('create a webhook and print its secret, which is shown only once'),
  ).argument('<url>', 'an https URL');
  callsService(
    create,
    'webhook create https://example.com/hook -e run.failed -e run.recovered --label team=vision',
  ).action(async (url: string, flags: FieldFlags) => {
    const session = await openSession(flags, context);
    const body = { ...fieldsOf(flags), url };
    const made = await session.askOnce((init) => session.client.POST('/webhooks', { body, ...init }));
    await printSecret(made, flags, context);
  });

  const update = withFields(parent.command('update').description('change the fields that are given'))
    .argument('<id>', 'id of the webhook')
    .option('--endpoint <url>', 'an https URL')
    .option('--enable', 'send again, from where it stopped')
    .option('--disable', 'send nothing');
  asksForOne(update, 'webhook update $WEBHOOK_ID --disable', context, (session, path, flags: FieldFlags) => {
    const { endpoint: url, enable, disable } = flags;
    const enabled = enable === true ? { enabled: true } : disable === true ? { enabled: false } : {};
    const body = { ...fieldsOf(flags), ...(url !== undefined && { url }), ...enabled };
    return session.ask((init) => session.client.PATCH('/webhooks/{id}', { params: { path }, body, ...init }));
  });

  const remove = parent
    .command('delete')
    .description('delete a webhook')
    .argument('<id>', 'id of the webhook');
  callsService(remove, 'webhook delete $WEBHOOK_ID').action(async (id: string, flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const params = { path: { id } };
    await session.ask((init) => session.client.DELETE('/webhooks/{id}', { params, ...init }));
    if (!flags.json) await context.output.line(`${id} deleted`);
  });
}

function addActions(parent: Command, context: CliContext): void {
  const of = (name: string, description: string): Command =>
    parent.command(name).description(description).argument('<id>', 'id of the webhook');

  asksForOne(of('get', 'print a webhook as JSON'), 'webhook get $WEBHOOK_ID', context, (session, path) =>
    session.ask((init) => session.client.GET('/webhooks/{id}', { params: { path }, ...init })),
  );
  asksForOne(of('test', 'send a test message'), 'webhook test $WEBHOOK_ID', context, (session, path) =>
    session.askOnce((init) => session.client.POST('/webhooks/{id}/test', { params: { path }, ...init })),
  );
  const replay = of('replay', 'send what happened in a time again')
    .requiredOption(
      '--from <time>',
      'where it begins: a span before now such as 2h, or ISO 8601 with a zone',
      time,
    )
    .option('--until <time>', 'where it ends (else it goes on with what follows)', time);
  asksForOne(
    replay,
    'webhook replay $WEBHOOK_ID --from 2h',
    context,
    (session, path, { from, until }: ServiceFlags & { readonly from: string; readonly until?: string }) => {
      const body = { from, ...(until !== undefined && { until }) };
      return session.askOnce((init) =>
        session.client.POST('/webhooks/{id}/replay', { params: { path }, body, ...init }),
      );
    },
  );
  const rotate = of('rotate-secret', 'replace the secret and print it, which is shown only once').addOption(
    integerOption('--keep-old <seconds>', 'how long the old secret signs, too', 0, 2_592_000),
  );
  callsService(rotate, 'webhook rotate-secret $WEBHOOK_ID --keep-old 86400').action(
    async (id: string, flags: ServiceFlags & { readonly keepOld?: number }) => {
      const session = await openSession(flags, context);
      const params = { path: { id } };
      const body = { ...(flags.keepOld !== undefined && { keep_old_s: flags.keepOld }) };
      const made = await session.askOnce((init) =>
        session.client.POST('/webhooks/{id}/rotate-secret', { params, body, ...init }),
      );
      await printSecret(made, flags, context);
    },
  );
}

function addDeliveries(parent: Command, context: CliContext): void {
  const list = parent
    .command('deliveries')
    .description('list the newest deliveries of a webhook')
    .argument('<id>', 'id of the webhook')
    .addOption(integerOption('--limit <number>', 'how many', 1, 1000).default(100))
    .addOption(
      new Option('--state <state>', 'only those in this state').choices(['parked', 'delivered', 'failed']),
    );
  callsService(list, 'webhook deliveries $WEBHOOK_ID --state parked').action(
    async (
      id: string,
      {
        limit,
        state,
        ...flags
      }: ServiceFlags & { readonly limit: number; readonly state?: Delivery['state'] },
    ) => {
      const session = await openSession(flags, context);
      const params = { path: { id }, query: { limit, ...(state !== undefined && { state }) } };
      const found = await session.ask((init) =>
        session.client.GET('/webhooks/{id}/deliveries', { params, ...init }),
      );
      await printRows(DELIVERY_COLUMNS, found, 'no deliveries', flags, context);
    },
  );
  const again = parent
    .command('redeliver')
    .description('send a delivery once more')
    .argument('<id>', 'id of the webhook')
    .argument('<delivery>', 'id of the delivery');
  callsService(again, 'webhook redeliver $WEBHOOK_ID 42').action(
    async (id: string, delivery: string, flags: ServiceFlags) => {
      const session = await openSession(flags, context);
      const params = { path: { id, delivery_id: delivery } };
      const done = await session.askOnce((init) =>
        session.client.POST('/webhooks/{id}/deliveries/{delivery_id}/redeliver', { params, ...init }),
      );
      await context.output.json(done);
    },
  );
}

/** A command about one webhook that prints the answer as JSON. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- commander gives the flags that the command declares
function asksForOne<F extends ServiceFlags>(
  command: Command,
  example: string,
  context: CliContext,
  ask: (session: Session, path: { readonly id: string }, flags: F) => Promise<object>,
): void {
  callsService(command, example).action(async (id: string, flags: F) => {
    const session = await openSession(flags, context);
    await context.output.json(await ask(session, { id }, flags));
  });
}

async function printRows<T>(
  columns: readonly Column<T>[],
  found: readonly T[],
  empty: string,
  { json }: ServiceFlags,
  { output }: CliContext,
): Promise<void> {
  if (json) await output.json(...found);
  else if (found.length === 0) output.note(empty);
  else await output.write(formatTable(columns, found, output));
}

async function printSecret(
  made: Schemas['WebhookWithSecret'],
  { json }: ServiceFlags,
  { output }: CliContext,
): Promise<void> {
  if (json) {
    await output.json(made);
    return;
  }
  output.note(`webhook ${made.id}; its secret, shown this once:`);
  await output.line(made.secret);
}

function fieldsOf({ event, description, outputs, ...flags }: FieldFlags) {
  const { topic, definition, schedule, label } = flags;
  const where = {
    ...(topic && { topic }),
    ...(definition && { definition }),
    ...(schedule && { schedule }),
    ...(label && { label }),
  };
  return {
    ...(event && { events: event }),
    ...(description !== undefined && { description }),
    ...(Object.keys(where).length > 0 && { where }),
    ...(outputs === true && { include: ['outputs' as const] }),
  };
}

function stateOf({ enabled, failures }: Webhook): string {
  if (!enabled) return 'disabled';
  return failures === 0 ? 'ok' : 'failing';
}

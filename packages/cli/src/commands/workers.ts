import type { Schemas } from '@longshore/client';
import type { Command } from 'commander';
import { callsService, type CliContext, openSession, printsList, type ServiceFlags } from '../command-kit.js';
import { describeCores } from '@longshore/client/needs';
import { oneLine } from '@longshore/common/shown-text';
import type { Colour } from '../terminal/style.js';
import { ago, type Column } from '../terminal/table.js';

/** `workers ...` */
export function addWorkers(program: Command, context: CliContext): void {
  const parent = program
    .command('workers')
    .helpCommand(false)
    .description('workers: list them (the default), drain, resume');
  const list = parent
    .command('list', { isDefault: true })
    .description('list workers with what they have left');
  printsList(list, 'workers', context, {
    columns: WORKER_COLUMNS,
    empty: 'no workers',
    page: (client, asked) => client.GET('/workers', { ...asked }),
    cursorOf: ({ id }) => id,
  });
  const changes = [
    ['drain', 'stop a worker from claiming; its runs continue', '/workers/{worker_id}/drain', 'drains'],
    ['resume', 'let a worker claim again', '/workers/{worker_id}/resume', 'claims again'],
  ] as const;
  for (const [name, description, path, done] of changes) {
    const command = parent.command(name).description(description).argument('<id>', 'id of the worker');
    callsService(command, `workers ${name} w-1`).action(async (id: string, flags: ServiceFlags) => {
      const session = await openSession(flags, context);
      const params = { path: { worker_id: id } };
      const worker = await session.ask((init) => session.client.POST(path, { params, ...init }));
      const { output } = context;
      await (flags.json ? output.json(worker) : output.line(`${worker.id} ${done}`));
    });
  }
}

type Worker = Schemas['Worker'];

/** Columns of a list of workers; resources as `free/all`. */
const WORKER_COLUMNS: readonly Column<Worker>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'STATE', text: stateOf, colour },
  { title: 'HEARD', text: ({ last_heartbeat_at: t }) => ago(t) },
  { title: 'CPU', text: ({ free, resources }) => `${freeCores(free)}/${resources.cpu_cores}` },
  { title: 'RAM MB', text: ({ free, resources }) => `${free?.ram_mb ?? '-'}/${resources.ram_mb}` },
  { title: 'GPUS', text: ({ free, resources }) => `${freeGpus(free, resources)}/${resources.gpus.length}` },
  { title: 'RUNS', text: ({ assigned }) => String(assigned?.count ?? '-') },
  { title: 'NOT CLAIMING', text: reasonsOf, isElastic: true },
  { title: 'UNABLE', text: unableTo, isElastic: true },
  { title: 'ENGINE', text: engineOf, isElastic: true },
  { title: 'TAGS', text: ({ tags }) => tags.join(',') || '-', isElastic: true },
  { title: 'CAPABILITIES', text: ({ capabilities }) => capabilities?.join(',') || '-', isElastic: true },
];

/** @param free undefined where the answer does not tell */
function freeCores(free: Worker['free']): string {
  return free === undefined ? '-' : describeCores(free.cpu_cores, free.cpu_millis);
}

/** How many GPUs no run uses. */
function freeGpus(free: Worker['free'], { gpus }: Worker['resources']): string {
  if (free === undefined) return '-';
  const unused = gpus.filter(({ id, vram_mb: all }) =>
    free.gpus.some((gpu) => gpu.id === id && gpu.vram_mb === all),
  );
  return String(unused.length);
}

function engineOf({ engine }: Worker): string {
  return engine === undefined ? '-' : `${engine.name}: ${engine.pending} pending, ${engine.running} running`;
}

function stateOf({
  is_active: isActive,
  away_until: until,
  draining,
  not_claiming: reasons,
}: Worker): string {
  if (until !== undefined) return `away until ${until}`;
  if (!isActive) return 'stale';
  if (draining) return 'draining';
  return (reasons ?? []).length > 0 ? 'not claiming' : 'active';
}

/** Why a worker does not claim, in its words. */
function reasonsOf({ not_claiming: reasons }: Pick<Worker, 'not_claiming'>): string {
  const texts = (reasons ?? []).map(({ reason, message }) =>
    message === '' ? reason : `${reason}: ${message}`,
  );
  return texts.map(oneLine).join('; ') || '-';
}

/** What the machine of a worker is unable to do, in its words. */
function unableTo({ unable }: Pick<Worker, 'unable'>): string {
  const texts = (unable ?? []).map(({ ability, message }) =>
    message === '' ? ability : `${ability}: ${message}`,
  );
  return texts.map(oneLine).join('; ') || '-';
}

function colour(worker: Worker): Colour {
  if (!worker.is_active && worker.away_until === undefined) return 'red';
  return stateOf(worker) === 'active' && (worker.unable ?? []).length === 0 ? 'green' : 'yellow';
}

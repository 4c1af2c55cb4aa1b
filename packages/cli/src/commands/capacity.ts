import type { Schemas } from '@longshore/client';
import type { Command } from 'commander';
import {
  callsService,
  type CliContext,
  integerOption,
  openSession,
  type ServiceFlags,
} from '../command-kit.js';
import { describeCores } from '@longshore/client/needs';
import { oneLine } from '@longshore/common/shown-text';
import { ago, type Column, formatFields, formatTable, type TableStyle } from '../terminal/table.js';

/** `capacity` */
export function addCapacity(program: Command, context: CliContext): void {
  const command = program
    .command('capacity')
    .helpCommand(false)
    .description('demand of runs and supply of workers, for scaling');
  const show = command.command('show', { isDefault: true }).description('demand and supply');
  callsService(show, 'capacity').action(async (flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const { output } = context;
    const report = await session.ask((init) => session.client.GET('/capacity', { ...init }));
    await (flags.json ? output.json(report) : output.write(capacityText(report, output)));
  });
  const wanted = command
    .command('wanted')
    .description('how many workers of one kind there should be')
    .option('--selector <tags>', 'their tags, separated by commas')
    .addOption(integerOption('--cpu <cores>', 'cores of each', 1, MAX_SIZE))
    .addOption(integerOption('--ram-mb <mb>', 'RAM of each in MB', 1, MAX_SIZE))
    .addOption(integerOption('--vram-mb <mb>', 'memory of the GPU of each in MB', 0, MAX_SIZE))
    .addOption(integerOption('--min <n>', 'so many at least', 0, MAX_WANTED))
    .addOption(integerOption('--max <n>', 'so many at most', 0, MAX_WANTED));
  callsService(wanted, 'capacity wanted --selector gpu --cpu 4 --max 20').action(
    async (flags: WantedFlags) => {
      const session = await openSession(flags, context);
      const { selector, cpu, ramMb, vramMb, min, max } = flags;
      const query = { selector, cpu, ram_mb: ramMb, vram_mb: vramMb, min, max };
      const params = { query };
      const found = await session.ask((init) => session.client.GET('/capacity/wanted', { params, ...init }));
      const { output } = context;
      await (flags.json ? output.json(found) : output.line(`${found.wanted}: ${oneLine(found.because)}`));
    },
  );
}

/** Largest size of a worker, and number of workers. */
const MAX_SIZE = 2 ** 31 - 1;
const MAX_WANTED = 100_000;

interface WantedFlags extends ServiceFlags {
  readonly selector?: string;
  readonly cpu?: number;
  readonly ramMb?: number;
  readonly vramMb?: number;
  readonly min?: number;
  readonly max?: number;
}

type Report = Schemas['CapacityReport'];
type Shape = Schemas['DemandShape'];
type Size = Schemas['SupplySize'];

const SHAPE_COLUMNS: readonly Column<Shape>[] = [
  { title: 'CPU', text: ({ cpu, cpu_millis: millis }) => describeCores(cpu, millis) },
  { title: 'RAM MB', text: ({ ram_mb: ramMb }) => String(ramMb) },
  { title: 'VRAM MB', text: ({ vram_mb: vramMb }) => String(vramMb) },
  { title: 'GPUS', text: ({ gpus }) => String(gpus) },
  { title: 'READY', text: ({ ready }) => String(ready) },
  { title: 'WAITING', text: ({ waiting }) => String(waiting) },
  { title: 'IN EXECUTION', text: ({ in_execution: held }) => String(held) },
  { title: 'CAN START', text: ({ can_start_now: now }) => String(now ?? '-') },
  {
    title: 'PLACEABLE',
    text: ({ placeable }) => (placeable === null ? '-' : placeable ? 'yes' : 'no'),
    colour: ({ placeable }) => (placeable === false ? 'red' : undefined),
  },
];

const SIZE_COLUMNS: readonly Column<Size>[] = [
  { title: 'WORKERS', text: ({ workers }) => String(workers) },
  { title: 'IDLE', text: ({ idle }) => String(idle) },
  { title: 'CPU', text: ({ cpu_cores: cores }) => String(cores) },
  { title: 'RAM MB', text: ({ ram_mb: ramMb }) => String(ramMb) },
  { title: 'GPUS MB', text: ({ gpus }) => gpus.join('+') || '-' },
];

const SELECTOR_COLUMNS: readonly Column<Schemas['DemandSelector']>[] = [
  { title: 'SELECTOR', text: ({ selector }) => selector.join(',') || '-', isElastic: true },
  { title: 'CAPABILITIES', text: ({ capabilities }) => capabilities.join(',') || '-', isElastic: true },
  { title: 'READY', text: ({ ready }) => String(ready.runs) },
  { title: 'HELD BACK', text: ({ held_back: held }) => String(held) },
  { title: 'WAITING', text: ({ waiting }) => String(waiting.runs) },
  { title: 'IN EXECUTION', text: ({ in_execution: running }) => String(running.runs) },
  {
    title: 'WORKERS',
    text: ({ workers, idle }) => `${workers} (${idle} idle)`,
    colour: ({ workers }) => (workers === 0 ? 'red' : undefined),
  },
];

/** The report as text: totals, shapes of runs, selectors, sizes of workers. */
function capacityText({ demand, supply }: Report, style: TableStyle): string {
  const { workers } = supply;
  const gpus = supply.gpus.total === 0 ? undefined : gpuText(supply);
  const sums = formatFields(
    [
      [
        'pending',
        `${demand.at_least ? 'at least ' : ''}${demand.pending.runs} (${demand.ready.runs} ready, ${demand.waiting.runs} waiting)`,
      ],
      ['because of', reasonsText(demand.reasons)],
      ['oldest', demand.oldest_pending_at === null ? undefined : ago(demand.oldest_pending_at)],
      ['in execution', String(demand.in_execution.runs)],
      ['workers', `${workers.active} active (${workers.idle} idle, ${workers.reserved} reserved)`],
      [
        'not taking',
        `${workers.draining} draining, ${workers.not_claiming} not claiming, ${workers.away} away, ${workers.stale} stale`,
      ],
      ['free', `${freeCores(supply)} CPU, ${freeOf(supply.ram_mb)} MB RAM`],
      ['free GPUs', gpus],
      ['engines', supply.engines.map(engineText).join('; ') || undefined],
    ],
    style.colours,
  );
  const parts = [sums];
  if (demand.shapes.length > 0) parts.push(formatTable(SHAPE_COLUMNS, demand.shapes, style));
  if (demand.other) parts.push(`and ${demand.other.pending} pending runs of other shapes\n`);
  if (demand.selectors.length > 0) parts.push(formatTable(SELECTOR_COLUMNS, demand.selectors, style));
  const lacking = demand.selectors.flatMap((selector) => selector.lacking ?? []);
  if (lacking.length > 0) parts.push(`${lacking.map(oneLine).join('\n')}\n`);
  if (demand.other_selectors)
    parts.push(`and ${demand.other_selectors.pending} pending runs with other selectors\n`);
  if (supply.sizes.length > 0) parts.push(formatTable(SIZE_COLUMNS, supply.sizes, style));
  if (supply.other) parts.push(`and ${supply.other.workers} workers of ${supply.other.sizes} other sizes\n`);
  return parts.join('\n');
}

/** How many runs wait for which reason; undefined: none waits. */
function reasonsText(reasons: Schemas['PendingByReason']): string | undefined {
  const found = Object.entries(reasons).filter(([, count]) => count > 0);
  return found.map(([reason, count]) => `${reason} ${count}`).join(', ') || undefined;
}

function engineText({ name, launchers, pending, running }: Schemas['EngineUse']): string {
  const by = launchers === 1 ? '1 launcher' : `${launchers} launchers`;
  return `${oneLine(name)}: ${pending} jobs pending, ${running} running (${by})`;
}

function gpuText({ gpus, vram_mb: vramMb }: Report['supply']): string {
  return `${freeOf(gpus)}, ${freeOf(vramMb)} MB`;
}

/** Parts of cores where the service tells them. */
function freeCores({ cpu, cpu_millis: millis }: Supply): string {
  return millis === undefined
    ? freeOf(cpu)
    : freeOf({ free: millis.free / 1000, total: millis.total / 1000 });
}

type Supply = Report['supply'] & { readonly cpu_millis?: Schemas['SupplySum'] };

function freeOf({ free, total }: Schemas['SupplySum']): string {
  return `${free}/${total}`;
}

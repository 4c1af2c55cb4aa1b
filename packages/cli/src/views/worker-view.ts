import type { Schemas } from '@longshore/client';
import { ago, type Column } from '../table.js';
import type { Colour } from '../style.js';

type Worker = Schemas['Worker'];

/** Columns of a list of workers; resources as `free/all`. */
export const WORKER_COLUMNS: readonly Column<Worker>[] = [
  { title: 'ID', text: ({ id }) => id },
  { title: 'STATE', text: standing, colour },
  { title: 'HEARD', text: ({ last_heartbeat_at: t }) => ago(t) },
  { title: 'CPU', text: ({ free, resources }) => `${free?.cpu_cores ?? '-'}/${resources.cpu_cores}` },
  { title: 'RAM MB', text: ({ free, resources }) => `${free?.ram_mb ?? '-'}/${resources.ram_mb}` },
  { title: 'GPUS', text: ({ resources }) => String(resources.gpus.length) },
  { title: 'RUNS', text: ({ running_ops: runs }) => String(runs.length) },
  { title: 'TAGS', text: ({ tags }) => tags.join(',') || '-', isElastic: true },
];

function standing({ is_active: isActive, draining }: Worker): string {
  if (!isActive) return 'lost';
  return draining ? 'draining' : 'active';
}

function colour(worker: Worker): Colour {
  if (!worker.is_active) return 'red';
  return worker.draining ? 'yellow' : 'green';
}

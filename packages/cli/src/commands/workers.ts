import type { Command } from 'commander';
import type { CliContext } from '../cli-context.js';
import { callsService, openSession, type ServiceFlags } from '../command-kit.js';
import { formatTable } from '../table.js';
import { WORKER_COLUMNS } from '../views/worker-view.js';

/** `workers ...` */
export function addWorkers(program: Command, context: CliContext): void {
  const parent = program
    .command('workers')
    .helpCommand(false)
    .description('workers: list them (the default), drain, resume');
  const list = parent
    .command('list', { isDefault: true })
    .description('list workers with what they have left');
  callsService(list, 'workers').action(async (flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const { output } = context;
    const workers = await session.ask((init) => session.client.GET('/workers', { ...init }));
    if (flags.json) await output.json(...workers);
    else if (workers.length === 0) output.note('no workers');
    else await output.write(formatTable(WORKER_COLUMNS, workers, output));
  });
  const changes = [
    ['drain', 'keep a worker from claiming; its runs go on', '/workers/{worker_id}/drain', 'drains'],
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

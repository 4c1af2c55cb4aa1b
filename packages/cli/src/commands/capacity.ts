import type { Command } from 'commander';
import type { CliContext } from '../cli-context.js';
import { callsService, openSession, type ServiceFlags } from '../command-kit.js';
import { capacityText } from '../views/capacity-view.js';

/** `capacity` */
export function addCapacity(program: Command, context: CliContext): void {
  const command = program
    .command('capacity')
    .description('what runs ask for, and what workers have: what to scale by');
  callsService(command, 'capacity').action(async (flags: ServiceFlags) => {
    const session = await openSession(flags, context);
    const { output } = context;
    const report = await session.ask((init) => session.client.GET('/capacity', { ...init }));
    await (flags.json ? output.json(report) : output.write(capacityText(report, output)));
  });
}

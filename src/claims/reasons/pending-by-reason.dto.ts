import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { PENDING_REASONS, type PendingReason, type ReasonCounts } from '../../runs/pending-reason.js';

const CountOf = (reason: PendingReason): PropertyDecorator =>
  ApiProperty({ type: 'integer', description: `Runs that wait because ${PENDING_REASONS[reason]}.` });

@ApiSchema({
  name: 'PendingByReason',
  description: 'PENDING runs by the reason for which they wait; each is counted once.',
})
export class PendingByReasonDto implements ReasonCounts {
  @CountOf('start_at') start_at: number;
  @CountOf('back_off') back_off: number;
  @CountOf('dependency') dependency: number;
  @CountOf('paused') paused: number;
  @CountOf('concurrency') concurrency: number;
  @CountOf('no_worker') no_worker: number;
  @CountOf('capability') capability: number;
  @CountOf('selector') selector: number;
  @CountOf('resources') resources: number;
  @CountOf('queue') queue: number;
}

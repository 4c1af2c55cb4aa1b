import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import type { PooledWorker } from '../pool/worker-pool.js';
import { ResourcesDto } from './resources.dto.js';
import { RunningOpDto } from './worker-op-run.dto.js';

/** A registered worker. */
@ApiSchema({ name: 'Worker' })
export class WorkerDto {
  id: string;
  @ApiProperty({ type: ResourcesDto })
  resources: ResourcesDto;
  tags: string[];
  /** What the worker said that it is executing. */
  @ApiProperty({ type: [RunningOpDto] })
  running_ops: RunningOpDto[];
  /** Time of the first heartbeat, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  created_at: string;
  /** Time of the newest heartbeat, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  last_heartbeat_at: string;
  /** True while the newest heartbeat lies within the worker timeout. */
  is_active: boolean;
}

/** The worker as clients see it. */
export function toWorkerDto(worker: PooledWorker): WorkerDto {
  return {
    id: worker.id,
    resources: {
      cpu_cores: worker.cpuCores,
      ram_mb: worker.ramMb,
      gpus: worker.gpus.map(({ id, vramMb, tags }) => ({ id, vram_mb: vramMb, tags: [...tags] })),
    },
    tags: [...worker.tags],
    running_ops: worker.runningOps.map(({ id, image, inputs, constraints }) => ({
      id,
      image,
      inputs,
      constraints,
    })),
    created_at: worker.createdAt.toISOString(),
    last_heartbeat_at: worker.lastHeartbeatAt.toISOString(),
    is_active: worker.isActive,
  };
}

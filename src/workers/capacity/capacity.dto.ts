import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import type { Capacity } from './capacity.service.js';
import { DemandDto, toDemandDto } from './demand.dto.js';
import { SupplyDto, toSupplyDto } from './supply.dto.js';

@ApiSchema({ name: 'CapacityReport', description: 'The demand of runs and the supply of workers.' })
export class CapacityReportDto {
  /** The time of the numbers. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  at: string;
  /** Name of the scheduling strategy. */
  @ApiProperty({ type: 'string', example: 'direct' })
  strategy: string;
  @ApiProperty({ type: DemandDto })
  demand: DemandDto;
  @ApiProperty({ type: SupplyDto })
  supply: SupplyDto;
}

/** The report as clients see it. @param limit shapes and sizes that are told one by one at most */
export function toCapacityReportDto(capacity: Capacity, limit: number): CapacityReportDto {
  return {
    at: capacity.demand.at.toISOString(),
    strategy: capacity.strategy,
    demand: toDemandDto(capacity),
    supply: toSupplyDto(capacity.supply, limit),
  };
}

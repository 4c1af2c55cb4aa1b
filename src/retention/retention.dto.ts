import { ApiProperty, ApiSchema } from '@nestjs/swagger';

@ApiSchema({ name: 'Retention', description: 'What the next pass of retention would remove.' })
export class RetentionDto {
  /** Runs, members of groups among them. */
  @ApiProperty({ type: 'integer', minimum: 0, example: 1200 }) runs: number;
  @ApiProperty({ type: 'integer', minimum: 0, example: 5000 }) feed_entries: number;
  /** Of the database, which the runs and entries take with all that belongs to them: an estimate by the mean size of rows. */
  @ApiProperty({ type: 'integer', minimum: 0, example: 4_800_000 }) bytes: number;
  /** Files and artifacts in the service's own store that are known to the database. */
  @ApiProperty({ type: 'integer', minimum: 0, example: 17 }) objects: number;
  @ApiProperty({ type: 'integer', minimum: 0, example: 3_400_000_000 }) object_bytes: number;
  /** Whether there may be more than was counted, of which 100,000 of each kind are looked at. */
  @ApiProperty({ type: 'boolean', example: false }) at_least: boolean;
}

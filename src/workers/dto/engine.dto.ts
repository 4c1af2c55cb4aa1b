import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { AllowUnknownFields, IsJsonInteger, IsText } from '../../common/http/validation/dto-decorators.js';

const ENGINE_NAME = /^[a-z0-9-]{1,64}$/;

/** Sums over all workers stay exact. */
const MOST_JOBS = 2 ** 31 - 1;

@ApiSchema({
  name: 'EngineJobsInput',
  description: 'The jobs of a launcher, as its engine lists them. Unknown fields are ignored.',
})
@AllowUnknownFields()
export class EngineJobsInputDto {
  /** Name of the engine. @example kubernetes */
  @IsText({ min: 1, max: 64, pattern: ENGINE_NAME, form: 'a name of a-z, 0-9 and -' })
  name: string;

  /** Jobs whose container does not run yet. @example 3 */
  @IsJsonInteger({ min: 0, max: MOST_JOBS }) pending: number;

  /** Jobs whose container runs. @example 12 */
  @IsJsonInteger({ min: 0, max: MOST_JOBS }) running: number;
}

@ApiSchema({ name: 'EngineJobs', description: 'The jobs of a launcher, as its engine lists them.' })
export class EngineJobsDto {
  /** Name of the engine. @example kubernetes */
  name: string;
  /** Jobs whose container does not run yet. @example 3 */
  @ApiProperty({ type: 'integer' }) pending: number;
  /** Jobs whose container runs. @example 12 */
  @ApiProperty({ type: 'integer' }) running: number;
}

@ApiSchema({ name: 'EngineUse', description: 'The jobs of all active launchers with one kind of engine.' })
export class EngineUseDto extends EngineJobsDto {
  /** How many launchers; draining ones count. @example 2 */
  @ApiProperty({ type: 'integer' }) launchers: number;
}

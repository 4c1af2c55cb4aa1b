import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import { IsText, OptionalField } from '../../common/http/validation/dto-decorators.js';
import { NAME } from '../../definitions/dto/create-definition.dto.js';
import { NEEDS, type Need } from '../../runs/machine/run.js';

const SAME = ['time', 'date'] as const;

@ApiSchema({
  name: 'ScheduleDependency',
  description: 'What another schedule makes for the same time, or for all of its times of the same date.',
})
export class ScheduleDependencyDto {
  /** Id of the other schedule. */
  @IsText(NAME)
  schedule: string;

  /** `date`: all of its times, each in its own zone, of the date that this time has in the zone of this schedule. */
  @OptionalField()
  @IsIn(SAME, { message: `$property must be one of ${SAME.join(', ')}` })
  @ApiProperty({ enum: SAME, required: false, default: 'time' })
  same?: (typeof SAME)[number];

  /** What its end must be. */
  @OptionalField()
  @IsIn(NEEDS, { message: `$property must be one of ${NEEDS.join(', ')}` })
  @ApiProperty({ enum: NEEDS, enumName: 'DependencyNeed', required: false, default: 'completed' })
  when?: Need;
}

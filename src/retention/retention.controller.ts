import { Controller, Get } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../auth/access.js';
import { TakesDatabaseTurn } from '../common/http/server/database-turns.js';
import { RetentionDto } from './retention.dto.js';
import { RetentionService } from './retention.service.js';

@ApiTags('operations')
@Controller('retention')
export class RetentionController {
  constructor(private readonly retention: RetentionService) {}

  /**
   * What retention would remove now
   * @remarks By the settings of the process that answers. Looks at 100,000 runs, entries and files of each kind at most, the oldest;
   * `at_least` says whether there may be more. Runs of which events are still on a feed do not count. After vacuum, the database uses
   * its space again; it does not give it back to the disk.
   */
  @Get()
  @AllowScopes('client')
  @TakesDatabaseTurn()
  @ApiOkResponse({ type: RetentionDto, description: 'The numbers.' })
  getRetention(): Promise<RetentionDto> {
    return this.retention.count();
  }
}

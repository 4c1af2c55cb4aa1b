import { Controller, Get, Query } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { AllowScopes } from '../auth/access.js';
import { ApiErrors } from '../common/http/errors/error.dto.js';
import { DefinitionsService } from './definitions.service.js';
import { LatestDefinitionDto, ListLatestQueryDto } from './dto/definition.dto.js';

/** HTTP of the list of definitions in which every definition is one entry. */
@ApiTags('definitions')
@Controller('latest-definitions')
export class LatestDefinitionsController {
  constructor(private readonly definitions: DefinitionsService) {}

  @Get()
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'listLatestDefinitions',
    summary: 'List the newest version of every definition, by id',
    description: 'Continue with the last id of the page as `after`.',
  })
  @ApiOkResponse({ type: [LatestDefinitionDto], description: 'A page of definitions.' })
  @ApiErrors(400, 503)
  list(@Query() query: ListLatestQueryDto): Promise<LatestDefinitionDto[]> {
    return this.definitions.listLatest(query);
  }
}

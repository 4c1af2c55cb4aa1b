import { Body, Controller, Delete, Get, HttpCode, Param, Put, Res } from '@nestjs/common';
import { ApiCreatedResponse, ApiNoContentResponse, ApiOkResponse, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowScopes, type Caller } from '../../auth/access.js';
import { CurrentCaller } from '../../auth/api-key.guard.js';
import { ApiErrors, ApiResource } from '../../common/http/errors/error.dto.js';
import { TakesDatabaseTurn } from '../../common/http/server/database-turns.js';
import { PAUSE_NAME, PauseDto, PutPauseDto } from './pause.dto.js';
import { PausesService } from './pauses.service.js';

const NAME_PARAM = {
  name: 'name',
  description: 'Name of the pause.',
  schema: {
    type: 'string',
    minLength: PAUSE_NAME.min,
    maxLength: PAUSE_NAME.max,
    pattern: PAUSE_NAME.pattern.source,
    example: 'move',
  },
};

@ApiTags('operations')
@Controller('pauses')
@TakesDatabaseTurn()
export class PausesController {
  constructor(private readonly pauses: PausesService) {}

  /**
   * List the pauses that have not ended, by name
   * @remarks At most 100. `GET /runs/{id}/explain` tells which of them hold a run.
   */
  @Get()
  @AllowScopes('client')
  @ApiOkResponse({ type: [PauseDto], description: 'The pauses.' })
  listPauses(): Promise<PauseDto[]> {
    return this.pauses.list();
  }

  /**
   * Pause runs, or replace a pause
   * @remarks Runs that are PENDING and match are not assigned: by the process that answers from this response on, by other
   * processes as soon as they hear of it, within milliseconds. Runs in execution go on, new runs are accepted, and timeouts of
   * runs that wait go on. 409: there are 100 other pauses.
   */
  @Put(':name')
  @AllowScopes('admin')
  @ApiParam(NAME_PARAM)
  @ApiCreatedResponse({ type: PauseDto, description: 'The pause was created.' })
  @ApiOkResponse({ type: PauseDto, description: 'The pause was replaced.' })
  @ApiErrors(409)
  async putPause(
    @Param('name') name: string,
    @Body() body: PutPauseDto,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<PauseDto> {
    const { pause, isNew } = await this.pauses.put(name, body, caller);
    response.status(isNew ? 201 : 200);
    return pause;
  }

  /**
   * End a pause
   * @remarks Its runs can be assigned again, unless another pause holds them: a million of them within a minute.
   */
  @Delete(':name')
  @AllowScopes('admin')
  @HttpCode(204)
  @ApiResource(NAME_PARAM)
  @ApiNoContentResponse({ description: 'The pause has ended.' })
  deletePause(@Param('name') name: string, @CurrentCaller() caller: Caller): Promise<void> {
    return this.pauses.remove(name, caller);
  }
}

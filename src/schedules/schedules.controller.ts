import {
  Body,
  Controller,
  Delete,
  Get,
  HttpCode,
  Param,
  Post,
  Put,
  Query,
  Res,
  type StreamableFile,
} from '@nestjs/common';
import { ApiCreatedResponse, ApiNoContentResponse, ApiOkResponse, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowScopes, type Caller } from '../auth/access.js';
import { CurrentCaller } from '../auth/api-key.guard.js';
import { ApiResource } from '../common/http/errors/error.dto.js';
import { ApiPage } from '../common/http/next-page.js';
import { textProblem } from '../common/http/validation/dto-decorators.js';
import { NAME } from '../definitions/dto/create-definition.dto.js';
import { TakesDatabaseTurn } from '../common/http/server/database-turns.js';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { CreateRunQueryDto } from '../runs/dto/run-requests.dto.js';
import { ApiIdempotencyKey, IdempotencyOf, markReplayed, REPLAYED } from '../runs/http/idempotency.js';
import { answerPage } from '../runs/http/json-stream.js';
import type { Idempotency } from '../runs/idempotency/idempotency.repository.js';
import { BackfillResultDto, ScheduleDto, ScheduleFireDto, SchedulePreviewDto } from './dto/schedule.dto.js';
import {
  BackfillScheduleDto,
  ListFiresQueryDto,
  ListSchedulesQueryDto,
  PauseScheduleDto,
  PreviewScheduleDto,
  PutScheduleDto,
} from './dto/schedule-requests.dto.js';
import { RequestedFires } from './fires/requested-fires.js';
import { SchedulesService } from './schedules.service.js';

const { pattern, min, max } = NAME;
const SCHEDULE_ID_PARAM = {
  name: 'id',
  description: 'Id of the schedule.',
  schema: {
    type: 'string',
    minLength: min,
    maxLength: max,
    pattern: pattern.source,
    example: 'nightly-report',
  },
};

@ApiTags('schedules')
@Controller('schedules')
@AllowScopes('client')
@TakesDatabaseTurn()
export class SchedulesController {
  constructor(
    private readonly schedules: SchedulesService,
    private readonly fires: RequestedFires,
  ) {}

  /**
   * Preview the times of a schedule
   * @remarks Nothing is stored.
   */
  @Post('preview')
  @HttpCode(200)
  @ApiOkResponse({ type: SchedulePreviewDto, description: 'The next times.' })
  previewSchedule(@Body() body: PreviewScheduleDto): Promise<SchedulePreviewDto> {
    return this.schedules.preview(body);
  }

  /**
   * List schedules, by id
   * @remarks Each with its next times and what became of the last ones.
   */
  @Get()
  @ApiPage(ScheduleDto, 'A page of schedules.')
  async listSchedules(
    @Query() query: ListSchedulesQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.schedules.list(query), ({ id }) => id);
  }

  /**
   * Create a schedule, or replace it
   * @remarks If it has other times than before, they begin from now; else a time that is due stays due. A pause stays unless `paused` is given.
   * With `dry_run=true` nothing is stored.
   */
  @Put(':id')
  @ApiParam(SCHEDULE_ID_PARAM)
  @ApiCreatedResponse({ type: ScheduleDto, description: 'The schedule was created.' })
  @ApiOkResponse({
    type: ScheduleDto,
    description: 'The schedule was replaced. With `dry_run=true`: what would be stored.',
  })
  async putSchedule(
    @Param('id') id: string,
    @Query() { dry_run: isDryRun }: CreateRunQueryDto,
    @Body() body: PutScheduleDto,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<ScheduleDto> {
    if (textProblem(id, NAME, 'id') !== undefined)
      throw new InvalidRequest(
        'The id of a schedule is 1 to 128 letters, digits and . _ -, starting with a letter or digit',
      );
    const { schedule, created } = await this.schedules.put(id, body, caller, isDryRun);
    response.status(created ? 201 : 200);
    return schedule;
  }

  /**
   * Get a schedule
   * @remarks With its next times and what became of the last ones.
   */
  @Get(':id')
  @ApiResource(SCHEDULE_ID_PARAM)
  @ApiOkResponse({ type: ScheduleDto, description: 'The schedule.' })
  getSchedule(@Param('id') id: string): Promise<ScheduleDto> {
    return this.schedules.get(id);
  }

  /**
   * Delete a schedule
   * @remarks With what became of its times. Its runs stay.
   */
  @Delete(':id')
  @HttpCode(204)
  @ApiResource(SCHEDULE_ID_PARAM)
  @ApiNoContentResponse({ description: 'Deleted.' })
  deleteSchedule(@Param('id') id: string, @CurrentCaller() caller: Caller): Promise<void> {
    return this.schedules.delete(id, caller);
  }

  /**
   * List what became of the times of a schedule
   * @remarks The newest first: a run, or the reason why there is none.
   */
  @Get(':id/fires')
  @ApiResource(SCHEDULE_ID_PARAM)
  @ApiPage(ScheduleFireDto, 'A page of entries.')
  async listScheduleFires(
    @Param('id') id: string,
    @Query() query: ListFiresQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.schedules.listFires(id, query), ({ id: last }) => last);
  }

  /**
   * Pause a schedule
   * @remarks Nothing is due until it is resumed. Runs that were made go on.
   */
  @Post(':id/pause')
  @HttpCode(200)
  @ApiResource(SCHEDULE_ID_PARAM)
  @ApiOkResponse({ type: ScheduleDto, description: 'The schedule.' })
  pauseSchedule(
    @Param('id') id: string,
    @Body() { note }: PauseScheduleDto,
    @CurrentCaller() caller: Caller,
  ): Promise<ScheduleDto> {
    return this.schedules.pause(id, note ?? null, caller);
  }

  /**
   * Resume a schedule
   * @remarks It goes on with the next time; those of the pause are not made up for. One that is not paused stays as it is.
   */
  @Post(':id/resume')
  @HttpCode(200)
  @ApiResource(SCHEDULE_ID_PARAM)
  @ApiOkResponse({ type: ScheduleDto, description: 'The schedule.' })
  resumeSchedule(@Param('id') id: string, @CurrentCaller() caller: Caller): Promise<ScheduleDto> {
    return this.schedules.resume(id, caller);
  }

  /**
   * Fire a schedule now
   * @remarks Also while it is paused. Its rule for overlaps holds: `outcome` says whether there is a run.
   */
  @Post(':id/trigger')
  @ApiResource(SCHEDULE_ID_PARAM)
  @ApiIdempotencyKey('It is fired once')
  @ApiCreatedResponse({ type: ScheduleFireDto, description: 'What became of it.', headers: REPLAYED })
  async triggerSchedule(
    @Param('id') id: string,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<ScheduleFireDto> {
    const { fire, replayed } = await this.fires.trigger(id, caller, idempotency);
    markReplayed(response, replayed);
    return fire;
  }

  /**
   * Make runs for times of the past
   * @remarks One for each time that has none, at most 1,000 times, whatever its rule for overlaps. The same request again makes none twice.
   */
  @Post(':id/backfill')
  @ApiResource(SCHEDULE_ID_PARAM)
  @ApiCreatedResponse({ type: BackfillResultDto, description: 'What was done.' })
  backfillSchedule(
    @Param('id') id: string,
    @Body() body: BackfillScheduleDto,
    @CurrentCaller() caller: Caller,
  ): Promise<BackfillResultDto> {
    return this.fires.backfill(id, body, caller);
  }
}

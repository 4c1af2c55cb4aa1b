import {
  Body,
  Controller,
  Get,
  HttpCode,
  Param,
  Post,
  Query,
  Res,
  type StreamableFile,
} from '@nestjs/common';
import { ApiBody, ApiCreatedResponse, ApiOkResponse, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { AllowScopes, type Caller } from '../auth/access.js';
import { CurrentCaller } from '../auth/api-key.guard.js';
import { EXAMPLE_GROUP_ID } from '../common/http/api-examples.js';
import { ApiResource } from '../common/http/errors/error.dto.js';
import { ApiPage } from '../common/http/next-page.js';
import { createOptionalBodyDecorator } from '../common/http/request/handler-inputs.js';
import { DatabaseTurns, TakesDatabaseTurn } from '../common/http/server/database-turns.js';
import { readItem } from '../common/http/validation/bulk-items.js';
import { CreateRunQueryDto } from '../runs/dto/run-requests.dto.js';
import { ApiIdempotencyKey, IdempotencyOf, markReplayed, REPLAYED } from '../runs/http/idempotency.js';
import { answerPage } from '../runs/http/json-stream.js';
import { ApiTraceparent, TraceOf } from '../runs/http/request-headers.js';
import type { Idempotency } from '../runs/idempotency/idempotency.repository.js';
import {
  CancelGroupDto,
  CreateGroupDto,
  GetGroupQueryDto,
  ListGroupsQueryDto,
  RetryGroupDto,
} from './dto/group-requests.dto.js';
import { GroupDto, GroupGraphDto } from './dto/group.dto.js';
import { GroupCommands } from './group-commands.js';
import { GroupWaits } from './group-waits.js';
import { GroupsService } from './groups.service.js';

const GROUP_ID_PARAM = {
  name: 'id',
  description: 'Id of the group.',
  schema: { type: 'string', format: 'uuid', example: EXAMPLE_GROUP_ID },
};

/** Parameter: what a request says about a cancellation. */
const CancelRequest = createOptionalBodyDecorator((body) => readItem(CancelGroupDto, body));

/** Parameter: what a request says about another try. */
const RetryRequest = createOptionalBodyDecorator((body) => readItem(RetryGroupDto, body));

@ApiTags('groups')
@Controller('groups')
@AllowScopes('client')
export class GroupsController {
  constructor(
    private readonly groups: GroupsService,
    private readonly commands: GroupCommands,
    private readonly waits: GroupWaits,
    private readonly turns: DatabaseTurns,
  ) {}

  /**
   * Create a group of runs
   * @remarks All of them or none; the members of an array are made as they are needed. With `dry_run=true` nothing is created.
   */
  @Post()
  @TakesDatabaseTurn()
  @ApiIdempotencyKey('The group is created once')
  @ApiTraceparent()
  @ApiCreatedResponse({ type: GroupDto, description: 'The group.', headers: REPLAYED })
  @ApiOkResponse({ type: GroupDto, description: 'With `dry_run=true`: the group that would be created.' })
  async createGroup(
    @Query() { dry_run: isDryRun = false }: CreateRunQueryDto,
    @Body() body: CreateGroupDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @TraceOf() trace: TraceContext | null,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<GroupDto> {
    const { group, replayed } = await this.groups.create(body, { caller, trace, idempotency }, isDryRun);
    markReplayed(response, replayed);
    if (isDryRun) response.status(200);
    return group;
  }

  /**
   * List groups, newest first
   * @remarks Every filter that is given must match.
   */
  @Get()
  @TakesDatabaseTurn()
  @ApiPage(GroupDto, 'A page of groups.')
  async listGroups(
    @Query() query: ListGroupsQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.groups.list(query), ({ id }) => id);
  }

  /**
   * Get a group
   * @remarks With `wait`, the response is held until the group has ended, or the time is over.
   */
  @Get(':id')
  @ApiResource(GROUP_ID_PARAM)
  @ApiOkResponse({ type: GroupDto, description: 'The group.' })
  async getGroup(
    @Param('id') id: string,
    @Query() { wait = 0 }: GetGroupQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<GroupDto> {
    if (wait > 0) await this.waits.wait(response, id, wait * 1000);
    return this.turns.run(response, () => this.groups.get(id));
  }

  /**
   * Get the graph of a group
   * @remarks At most 1,000 members, what they wait for, and the runs and groups outside that they wait for.
   */
  @Get(':id/graph')
  @TakesDatabaseTurn()
  @ApiResource(GROUP_ID_PARAM)
  @ApiOkResponse({ type: GroupGraphDto, description: 'The graph.' })
  getGroupGraph(@Param('id') id: string): Promise<GroupGraphDto> {
    return this.groups.graph(id);
  }

  /**
   * Cancel a group
   * @remarks All members that have not ended, some of them after the answer; no more are made. A body is not needed.
   */
  @Post(':id/cancel')
  @TakesDatabaseTurn()
  @HttpCode(200)
  @ApiResource(GROUP_ID_PARAM)
  @ApiIdempotencyKey('The same key with the same body cancels it once')
  @ApiBody({ type: CancelGroupDto, required: false })
  @ApiOkResponse({ type: GroupDto, description: 'The group.', headers: REPLAYED })
  async cancelGroup(
    @Param('id') id: string,
    @CancelRequest() { reason }: CancelGroupDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<GroupDto> {
    markReplayed(response, await this.commands.cancel(id, reason, caller, idempotency));
    return this.groups.get(id);
  }

  /**
   * Try members of a group again
   * @remarks Those that FAILED and what they had cancelled, with their index; the others keep their outputs. A body is not needed.
   */
  @Post(':id/retry')
  @TakesDatabaseTurn()
  @HttpCode(200)
  @ApiResource(GROUP_ID_PARAM)
  @ApiIdempotencyKey('The same key with the same body opens each member once')
  @ApiBody({ type: RetryGroupDto, required: false })
  @ApiOkResponse({ type: GroupDto, description: 'The group.', headers: REPLAYED })
  async retryGroup(
    @Param('id') id: string,
    @RetryRequest() { only = 'failed' }: RetryGroupDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<GroupDto> {
    markReplayed(response, await this.commands.retry(id, only, caller, idempotency));
    return this.groups.get(id);
  }
}

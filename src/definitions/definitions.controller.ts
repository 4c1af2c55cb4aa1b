import {
  Body,
  Controller,
  Delete,
  Get,
  HttpCode,
  Param,
  Post,
  Query,
  Res,
  type StreamableFile,
} from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  type ApiResponseOptions,
  ApiTags,
} from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowScopes, type Caller } from '../auth/access.js';
import { CurrentCaller } from '../auth/api-key.guard.js';
import { ApiErrors } from '../common/http/errors/error.dto.js';
import { ApiPage } from '../common/http/next-page.js';
import { BODY_EXAMPLES, DEFINITION_NAME_PARAM, namedExamples } from '../common/http/api-examples.js';
import { answerPage } from '../runs/http/json-stream.js';
import { OpRunDto } from '../runs/http/dto/op-run.dto.js';
import { sendRun, ApiIdempotentCreation, IdempotencyOf } from '../runs/idempotency/idempotency.js';
import type { Idempotency } from '../runs/idempotency/idempotency-ledger.js';
import { ApiTraceparent, TraceOf } from '../runs/http/request-headers.js';
import { toWarnings } from '@longshore/common/warnings';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { DefinitionsService } from './definitions.service.js';
import { CreateDefinitionDto, CreateDefinitionRunDto } from './dto/create-definition.dto.js';
import {
  DefinitionDto,
  DeleteDefinitionQueryDto,
  DefinitionVersionQueryDto,
  LatestDefinitionDto,
  ListDefinitionsQueryDto,
  ListLatestQueryDto,
  ListVersionsQueryDto,
} from './dto/definition.dto.js';

const WARNING = {
  Warning: {
    description: '`299 - "text"` (RFC 7234) for each input whose type may be misspelled: it is not checked.',
    schema: { type: 'string' },
  },
} as const satisfies ApiResponseOptions['headers'];

@ApiTags('definitions')
@Controller()
export class DefinitionsController {
  constructor(private readonly definitions: DefinitionsService) {}

  @Post('definitions')
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'upsertDefinition',
    summary: 'Create a version of a definition, or replace it',
    description: 'Other versions of the definition stay unchanged.',
  })
  @ApiBody({ type: CreateDefinitionDto, examples: namedExamples(BODY_EXAMPLES.upsertDefinition) })
  @ApiCreatedResponse({ type: DefinitionDto, description: 'The version was created.', headers: WARNING })
  @ApiOkResponse({
    type: DefinitionDto,
    description: 'The version was replaced; its createdAt stays.',
    headers: WARNING,
  })
  @ApiErrors(400, 413, 415, 429, 503)
  async upsert(
    @Body() body: CreateDefinitionDto,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<DefinitionDto> {
    const { definition, created, warnings } = await this.definitions.upsert(body, caller);
    response.status(created ? 201 : 200);
    if (warnings.length > 0) response.setHeader('Warning', toWarnings(warnings));
    return definition;
  }

  @Get('definitions')
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'listDefinitions',
    summary: 'List all versions of all definitions, by id, the oldest version first',
    description:
      'All of them, unless `limit` is given. Many come in several pages: follow the header `Link`.',
  })
  @ApiPage(DefinitionDto, 'The versions, or a page of them.')
  @ApiErrors(400, 503)
  async list(
    @Query() query: ListDefinitionsQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.definitions.list(query), ({ id, version }) => `${id}/${version}`);
  }

  @Get('definitions/:name')
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'getDefinition',
    summary: 'Get a version of a definition, or the latest',
    description: 'The latest version is the one that was created last.',
  })
  @ApiParam(DEFINITION_NAME_PARAM)
  @ApiOkResponse({ type: DefinitionDto, description: 'The version.' })
  @ApiErrors(400, 404, 503)
  get(@Param('name') name: string, @Query() query: DefinitionVersionQueryDto): Promise<DefinitionDto> {
    return this.definitions.get(name, query.version);
  }

  @Get('definitions/:name/versions')
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'listDefinitionVersions',
    summary: 'List the versions of a definition, the newest first',
    description: 'Continue with the last version of the page as `after`, or follow the header `Link`.',
  })
  @ApiParam(DEFINITION_NAME_PARAM)
  @ApiPage(DefinitionDto, 'A page of versions.')
  @ApiErrors(400, 404, 503)
  async listVersions(
    @Param('name') name: string,
    @Query() query: ListVersionsQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.definitions.listVersions(name, query), ({ version }) => version);
  }

  @Delete('definitions/:name')
  @HttpCode(204)
  @AllowScopes('admin')
  @ApiOperation({
    operationId: 'deleteDefinition',
    summary: 'Delete a version of a definition, or all of them',
    description:
      'Either `version` or `all=true` is required: else 400. Runs of the definition stay as they are.',
  })
  @ApiParam(DEFINITION_NAME_PARAM)
  @ApiNoContentResponse({ description: 'Deleted.' })
  @ApiErrors(400, 404, 503)
  delete(
    @Param('name') name: string,
    @Query() query: DeleteDefinitionQueryDto,
    @CurrentCaller() caller: Caller,
  ): Promise<void> {
    return this.definitions.delete(name, query, caller);
  }

  @Post('definitions/:name/runs')
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'createDefinitionRun',
    summary: 'Create a run of a definition',
    description: 'Of the latest version, unless `version` is given.',
  })
  @ApiParam(DEFINITION_NAME_PARAM)
  @ApiBody({ type: CreateDefinitionRunDto, examples: namedExamples(BODY_EXAMPLES.createDefinitionRun) })
  @ApiIdempotentCreation(OpRunDto)
  @ApiTraceparent()
  @ApiErrors(400, 404, 409, 413, 415, 503)
  async createRun(
    @Param('name') name: string,
    @Query() query: DefinitionVersionQueryDto,
    @Body() body: CreateDefinitionRunDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @TraceOf() trace: TraceContext | null,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OpRunDto> {
    const { version } = query;
    const options = { trace, idempotency, caller };
    const created = await this.definitions.createRun(name, version, body, options);
    return sendRun(response, created);
  }

  @Get('latest-definitions')
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'listLatestDefinitions',
    summary: 'List the newest version of every definition, by id',
    description: 'Continue with the last id of the page as `after`, or follow the header `Link`.',
  })
  @ApiPage(LatestDefinitionDto, 'A page of definitions.')
  @ApiErrors(400, 503)
  async listLatest(
    @Query() query: ListLatestQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.definitions.listLatest(query), ({ id }) => id);
  }
}

import { Body, Controller, Get, Param, Post, Query, Res } from '@nestjs/common';
import { ApiCreatedResponse, ApiOkResponse, ApiOperation, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowScopes } from '../auth/access.js';
import { ApiErrors } from '../http/error.dto.js';
import { OpRunDto } from '../runs/dto/op-run.dto.js';
import { answerRun, ApiIdempotentCreation, IdempotencyOf } from '../runs/idempotency.js';
import type { Idempotency } from '../runs/run-journal/key-book.js';
import { ApiTraceparent, TraceOf } from '../runs/trace-of.js';
import type { TraceContext } from '../tracing/trace-context.js';
import { DefinitionsService } from './definitions.service.js';
import { CreateDefinitionRunDto } from './dto/create-definition-run.dto.js';
import { CreateDefinitionDto } from './dto/create-definition.dto.js';
import {
  DefinitionDto,
  DefinitionVersionQueryDto,
  ListDefinitionsQueryDto,
  ListVersionsQueryDto,
} from './dto/definition.dto.js';

const NAME = { name: 'name', description: 'Id of the definition' } as const;

/** HTTP of definitions. */
@ApiTags('definitions')
@Controller('definitions')
export class DefinitionsController {
  constructor(private readonly definitions: DefinitionsService) {}

  @Post()
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'upsertDefinition',
    summary: 'Store a version of a definition, or replace it',
  })
  @ApiCreatedResponse({ type: DefinitionDto, description: 'The version is new.' })
  @ApiOkResponse({ type: DefinitionDto, description: 'The version was replaced; its createdAt stays.' })
  @ApiErrors(400, 413, 415, 503)
  async upsert(
    @Body() body: CreateDefinitionDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<DefinitionDto> {
    const { definition, created } = await this.definitions.upsert(body);
    response.status(created ? 201 : 200);
    return definition;
  }

  @Get()
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'listDefinitions',
    summary: 'List all versions of all definitions, by id, the oldest version first',
  })
  @ApiOkResponse({ type: [DefinitionDto] })
  @ApiErrors(400, 503)
  list(@Query() query: ListDefinitionsQueryDto): Promise<DefinitionDto[]> {
    return this.definitions.list(query);
  }

  @Get(':name')
  @AllowScopes('client')
  @ApiOperation({ operationId: 'getDefinition', summary: 'Get a version of a definition, or the latest' })
  @ApiParam(NAME)
  @ApiOkResponse({ type: DefinitionDto })
  @ApiErrors(400, 404, 503)
  get(@Param('name') name: string, @Query() query: DefinitionVersionQueryDto): Promise<DefinitionDto> {
    return this.definitions.get(name, query.version);
  }

  @Get(':name/versions')
  @AllowScopes('client')
  @ApiOperation({
    operationId: 'listDefinitionVersions',
    summary: 'List the versions of a definition, the newest first',
  })
  @ApiParam(NAME)
  @ApiOkResponse({ type: [DefinitionDto] })
  @ApiErrors(400, 404, 503)
  listVersions(@Param('name') name: string, @Query() query: ListVersionsQueryDto): Promise<DefinitionDto[]> {
    return this.definitions.listVersions(name, query);
  }

  @Post(':name/runs')
  @AllowScopes('client')
  @ApiOperation({ operationId: 'createDefinitionRun', summary: 'Create a run of a definition' })
  @ApiParam(NAME)
  @ApiIdempotentCreation(OpRunDto)
  @ApiTraceparent()
  @ApiErrors(400, 404, 409, 413, 415, 503)
  async createRun(
    @Param('name') name: string,
    @Query() query: DefinitionVersionQueryDto,
    @Body() body: CreateDefinitionRunDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @TraceOf() trace: TraceContext | null,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OpRunDto> {
    const created = await this.definitions.createRun(
      { name, version: query.version, trace, idempotency },
      body,
    );
    return answerRun(response, created);
  }
}

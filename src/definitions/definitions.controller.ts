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
  ApiCreatedResponse,
  ApiExtraModels,
  getSchemaPath,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiTags,
} from '@nestjs/swagger';
import type { Response } from 'express';
import { DatabaseTurns, TakesDatabaseTurn } from '../common/http/server/database-turns.js';
import { AllowScopes, type Caller } from '../auth/access.js';
import { CurrentCaller } from '../auth/api-key.guard.js';
import { ApiResource } from '../common/http/errors/error.dto.js';
import { ApiPage } from '../common/http/next-page.js';
import { DEFINITION_NAME_PARAM } from '../common/http/api-examples.js';
import { answerPage } from '../runs/http/json-stream.js';
import { OpRunDto, RunPreviewDto } from '../runs/dto/op-run.dto.js';
import { CreateRunQueryDto } from '../runs/dto/run-requests.dto.js';
import { referenceWarnings } from '../runs/options/plain-references.js';
import { sendWarnings, WARNING_HEADER } from '../common/http/warning-header.js';
import { sendRun, ApiDryRun, ApiIdempotentCreation, IdempotencyOf } from '../runs/http/idempotency.js';
import type { Idempotency } from '../runs/idempotency/idempotency.repository.js';
import { ApiTraceparent, TraceOf } from '../runs/http/request-headers.js';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { DefinitionsService } from './definitions.service.js';
import { CreateDefinitionDto, CreateDefinitionRunDto } from './dto/create-definition.dto.js';
import {
  CreateDefinitionRunQueryDto,
  DefinitionDto,
  DefinitionPreviewDto,
  DeleteDefinitionQueryDto,
  DefinitionVersionQueryDto,
  LatestDefinitionDto,
  ListDefinitionsQueryDto,
  ListLatestQueryDto,
  ListVersionsQueryDto,
} from './dto/definition.dto.js';

@ApiTags('definitions')
@Controller()
export class DefinitionsController {
  constructor(
    private readonly definitions: DefinitionsService,
    private readonly turns: DatabaseTurns,
  ) {}

  /**
   * Create a version of a definition, or replace it
   * @remarks Other versions of the definition stay unchanged. With `dry_run=true` nothing is stored.
   */
  @Post('definitions')
  @TakesDatabaseTurn()
  @AllowScopes('client')
  @ApiCreatedResponse({
    type: DefinitionDto,
    description: 'The version was created.',
    headers: WARNING_HEADER,
  })
  @ApiExtraModels(DefinitionPreviewDto)
  @ApiOkResponse({
    description: 'The version was replaced; its createdAt stays. With `dry_run=true`: what would be stored.',
    schema: { anyOf: [DefinitionPreviewDto, DefinitionDto].map((type) => ({ $ref: getSchemaPath(type) })) },
    headers: WARNING_HEADER,
  })
  async upsertDefinition(
    @Query() { dry_run: isDryRun = false }: CreateRunQueryDto,
    @Body() body: CreateDefinitionDto,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<DefinitionDto> {
    const { definition, created, warnings } = isDryRun
      ? { ...(await this.definitions.preview(body, caller)), created: false }
      : await this.definitions.upsert(body, caller);
    response.status(created ? 201 : 200);
    sendWarnings(response, warnings);
    return definition;
  }

  /**
   * List all versions of all definitions, by id, the oldest version first
   * @remarks All of them, unless `limit` is given. Many come in several pages: follow the header `Link`.
   */
  @Get('definitions')
  @TakesDatabaseTurn()
  @AllowScopes('client')
  @ApiPage(DefinitionDto, 'The versions, or a page of them.')
  async listDefinitions(
    @Query() query: ListDefinitionsQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.definitions.list(query), ({ id, version }) => `${id}/${version}`);
  }

  /**
   * Get a version of a definition, or the latest
   * @remarks The latest version is the one that was created last.
   */
  @Get('definitions/:name')
  @TakesDatabaseTurn()
  @AllowScopes('client')
  @ApiResource(DEFINITION_NAME_PARAM)
  @ApiOkResponse({ type: DefinitionDto, description: 'The version.' })
  getDefinition(
    @Param('name') name: string,
    @Query() query: DefinitionVersionQueryDto,
  ): Promise<DefinitionDto> {
    return this.definitions.get(name, query.version);
  }

  /**
   * List the versions of a definition, the newest first
   * @remarks Continue with the last version of the page as `after`, or follow the header `Link`.
   */
  @Get('definitions/:name/versions')
  @TakesDatabaseTurn()
  @AllowScopes('client')
  @ApiResource(DEFINITION_NAME_PARAM)
  @ApiPage(DefinitionDto, 'A page of versions.')
  async listDefinitionVersions(
    @Param('name') name: string,
    @Query() query: ListVersionsQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.definitions.listVersions(name, query), ({ version }) => version);
  }

  /**
   * Delete a version of a definition, or all of them
   * @remarks Either `version` or `all=true` is required: else 400. Runs of the definition stay as they are.
   */
  @Delete('definitions/:name')
  @TakesDatabaseTurn()
  @HttpCode(204)
  @AllowScopes('admin')
  @ApiResource(DEFINITION_NAME_PARAM)
  @ApiNoContentResponse({ description: 'Deleted.' })
  deleteDefinition(
    @Param('name') name: string,
    @Query() query: DeleteDefinitionQueryDto,
    @CurrentCaller() caller: Caller,
  ): Promise<void> {
    return this.definitions.delete(name, query, caller);
  }

  /**
   * Create a run of a definition
   * @remarks Of the latest version, unless `version` is given. With `dry_run=true` nothing is created.
   */
  @Post('definitions/:name/runs')
  @AllowScopes('client')
  @ApiResource(DEFINITION_NAME_PARAM)
  @ApiIdempotentCreation(OpRunDto)
  @ApiDryRun(RunPreviewDto)
  @ApiTraceparent()
  async createDefinitionRun(
    @Param('name') name: string,
    @Query() query: CreateDefinitionRunQueryDto,
    @Body() body: CreateDefinitionRunDto,
    @IdempotencyOf() idempotency: Idempotency | undefined,
    @TraceOf() trace: TraceContext | null,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OpRunDto> {
    const { version, dry_run: isDryRun = false } = query;
    sendWarnings(response, referenceWarnings(body, false));
    if (isDryRun) {
      response.status(200);
      return this.turns.run(response, () =>
        this.definitions.previewRun(name, version, body, { trace, caller }),
      );
    }
    const options = { trace, idempotency, caller };
    const created = await this.definitions.createRun(name, version, body, options);
    return sendRun(response, created);
  }

  /**
   * List the newest version of every definition, by id
   * @remarks Continue with the last id of the page as `after`, or follow the header `Link`.
   */
  @Get('latest-definitions')
  @TakesDatabaseTurn()
  @AllowScopes('client')
  @ApiPage(LatestDefinitionDto, 'A page of definitions.')
  async listLatestDefinitions(
    @Query() query: ListLatestQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.definitions.listLatest(query), ({ id }) => id);
  }
}

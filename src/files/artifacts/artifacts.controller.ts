import { Body, Controller, Get, Header, HttpCode, Param, Post, Query, Res } from '@nestjs/common';
import { ApiOkResponse, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { AllowScopes } from '../../auth/access.js';
import { RUN_ID_PARAM } from '../../common/http/api-examples.js';
import {
  ApiErrors,
  ApiResource,
  ApiSwitchedOffError,
  NO_STORE_HEADER,
} from '../../common/http/errors/error.dto.js';
import { TakesDatabaseTurn } from '../../common/http/server/database-turns.js';
import { AllowHolders } from '../../runs/http/held-run.guard.js';
import { ApiFence, FencedBy, OF_HOLDER, type Fence } from '../../runs/http/request-headers.js';
import { RequestAddress } from '../../common/http/request/request-address.js';
import { answerContent, ApiContent } from '../uploads/content-answer.js';
import { FileContentQueryDto, FileUrlDto } from '../uploads/file.dto.js';
import { ArtifactDto, ArtifactUrlsDto, ArtifactUrlsRequestDto } from './artifact.dto.js';
import { ArtifactsService } from './artifacts.service.js';

@ApiTags('files')
@Controller('runs')
@TakesDatabaseTurn()
@ApiSwitchedOffError('the storage of files')
export class ArtifactsController {
  constructor(private readonly artifacts: ArtifactsService) {}

  /**
   * Get URLs for the artifacts of a run that a worker holds
   * @remarks Only for the worker and the attempt to which the run is assigned.
   */
  @Post(':id/artifact-urls')
  @HttpCode(200)
  @AllowScopes('worker')
  @AllowHolders()
  @Header('Cache-Control', 'no-store')
  @ApiResource(RUN_ID_PARAM)
  @ApiFence(OF_HOLDER)
  @ApiOkResponse({ type: ArtifactUrlsDto, description: 'The URLs.', headers: NO_STORE_HEADER })
  @ApiErrors(409)
  createArtifactUrls(
    @Param('id') id: string,
    @Body() body: ArtifactUrlsRequestDto,
    @FencedBy() fence: Fence,
    @RequestAddress() base: string,
  ): Promise<ArtifactUrlsDto> {
    return this.artifacts.urls(id, fence, body, base);
  }

  /**
   * List the artifacts of a run
   * @remarks Those of the attempt that ended last by COMPLETED or FAILED, by name; empty before such an end.
   */
  @Get(':id/artifacts')
  @AllowScopes('client')
  @ApiResource(RUN_ID_PARAM)
  @ApiOkResponse({ type: [ArtifactDto], description: 'The artifacts.' })
  listArtifacts(@Param('id') id: string): Promise<ArtifactDto[]> {
    return this.artifacts.list(id);
  }

  /**
   * Download an artifact
   * @remarks A redirect to a URL that works for 5 minutes and needs no API key. The `/` of a name may be sent as it is.
   */
  @Get(':id/artifacts/*name')
  @AllowScopes('client')
  @ApiResource(RUN_ID_PARAM)
  @ApiParam({
    name: 'name',
    description: 'Name of the artifact.',
    schema: { type: 'string', example: 'model' },
  })
  @ApiContent('The content is at `Location`, as an attachment.')
  async getArtifactContent(
    @Param('id') id: string,
    @Param('name') name: string | string[],
    @Query() { redirect = true }: FileContentQueryDto,
    @RequestAddress() base: string,
    @Res({ passthrough: true }) response: Response,
  ): Promise<FileUrlDto | undefined> {
    const found = await this.artifacts.content(id, Array.isArray(name) ? name.join('/') : name, base);
    return answerContent(response, found, redirect);
  }
}

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
  Header,
} from '@nestjs/common';
import { ApiCreatedResponse, ApiNoContentResponse, ApiOkResponse, ApiParam, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { TakesDatabaseTurn } from '../common/http/server/database-turns.js';
import { AllowScopes, type Caller, AllowBoundKeys } from '../auth/access.js';
import { CurrentCaller } from '../auth/api-key.guard.js';
import {
  ApiResource,
  ApiSwitchedOffError,
  ApiErrors,
  NO_STORE_HEADER,
} from '../common/http/errors/error.dto.js';
import { ApiPage } from '../common/http/next-page.js';
import { answerPage } from '../runs/http/json-stream.js';
import { SECRET_NAME } from '../runs/options/names.js';
import {
  ListSecretsQueryDto,
  PutSecretDto,
  SecretDto,
  SecretRotationDto,
  RunSecretsDto,
} from './secret.dto.js';
import { SecretsService } from './secrets.service.js';
import { RUN_ID_PARAM } from '../common/http/api-examples.js';
import { ApiFence, FencedBy, OF_HOLDER, type Fence } from '../runs/http/request-headers.js';
import { RunSecretsService } from './run-secrets.service.js';

const { pattern, min, max } = SECRET_NAME;
const NAME_PARAM = {
  name: 'name',
  description: 'Name of the secret.',
  schema: {
    type: 'string',
    minLength: min,
    maxLength: max,
    pattern: pattern.source,
    example: 'database-password',
  },
};

@ApiTags('secrets')
@Controller('secrets')
@AllowScopes('admin')
@TakesDatabaseTurn()
@ApiSwitchedOffError('the storage of secrets')
export class SecretsController {
  constructor(private readonly secrets: SecretsService) {}

  /**
   * Create a secret, or replace it
   * @remarks The value is stored encrypted; only a worker that holds a run that uses the secret can read it. Runs that
   * start from now on get the new value.
   */
  @Put(':name')
  @ApiParam(NAME_PARAM)
  @ApiCreatedResponse({ type: SecretDto, description: 'The secret was created.' })
  @ApiOkResponse({ type: SecretDto, description: 'The secret was replaced.' })
  async putSecret(
    @Param('name') name: string,
    @Body() body: PutSecretDto,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: Response,
  ): Promise<SecretDto> {
    const { secret, created } = await this.secrets.put(name, body, caller);
    response.status(created ? 201 : 200);
    return secret;
  }

  /**
   * List secrets, by name
   * @remarks Continue with the last name of the page as `after`, or follow the header `Link`.
   */
  @Get()
  @ApiPage(SecretDto, 'A page of secrets, without their values.')
  async listSecrets(
    @Query() query: ListSecretsQueryDto,
    @Res({ passthrough: true }) response: Response,
  ): Promise<StreamableFile> {
    return answerPage(response, await this.secrets.list(query), ({ name }) => name);
  }

  /**
   * Delete a secret
   * @remarks Runs that use it and start from now on fail.
   */
  @Delete(':name')
  @HttpCode(204)
  @ApiResource(NAME_PARAM)
  @ApiNoContentResponse({ description: 'Deleted.' })
  deleteSecret(@Param('name') name: string, @CurrentCaller() caller: Caller): Promise<void> {
    return this.secrets.delete(name, caller);
  }

  /**
   * Encrypt all secrets with the first key of SERVICE_SECRETS_KEY
   * @remarks Those that it encrypts already stay as they are. Names, kinds, values and times do not change.
   */
  @Post('rotate')
  @HttpCode(200)
  @ApiOkResponse({ type: SecretRotationDto, description: 'What was done.' })
  rotateSecrets(@CurrentCaller() caller: Caller): Promise<SecretRotationDto> {
    return this.secrets.rotate(caller);
  }
}

@ApiTags('secrets')
@Controller('runs')
@TakesDatabaseTurn()
export class RunSecretsController {
  constructor(private readonly secrets: RunSecretsService) {}

  /**
   * Read the secrets of a run that a worker holds
   * @remarks Only for the worker and the attempt to which the run is assigned. 404 names a secret that does not exist, or
   * is of another kind than the run needs; the worker reports FAILED with it. The audit log has an entry for each attempt
   * and API key that gets values.
   */
  @Get(':id/secrets')
  @AllowScopes('worker')
  @AllowBoundKeys()
  @Header('Cache-Control', 'no-store')
  @ApiResource(RUN_ID_PARAM)
  @ApiFence(OF_HOLDER)
  @ApiOkResponse({ type: RunSecretsDto, description: 'The values.', headers: NO_STORE_HEADER })
  @ApiErrors(409)
  @ApiSwitchedOffError('the storage of secrets')
  getRunSecrets(
    @Param('id') id: string,
    @FencedBy() fence: Fence,
    @CurrentCaller() caller: Caller,
  ): Promise<RunSecretsDto> {
    return this.secrets.get(id, fence, caller);
  }
}

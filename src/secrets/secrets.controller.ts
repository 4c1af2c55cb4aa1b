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
import { ApiResource, ApiSwitchedOffError } from '../common/http/errors/error.dto.js';
import { ApiPage } from '../common/http/next-page.js';
import { answerPage } from '../runs/http/json-stream.js';
import { SECRET_NAME } from '../runs/options/names.js';
import { ListSecretsQueryDto, PutSecretDto, SecretDto, SecretRotationDto } from './secret.dto.js';
import { SecretsService } from './secrets.service.js';

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

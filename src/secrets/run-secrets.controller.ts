import { Controller, Get, Header, Param } from '@nestjs/common';
import { ApiHeader, ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { AllowBoundKeys, AllowScopes, type Caller } from '../auth/access.js';
import { CurrentCaller } from '../auth/api-key.guard.js';
import { EXAMPLE_WORKER_ID, RUN_ID_PARAM } from '../common/http/api-examples.js';
import {
  ApiResource,
  ApiErrors,
  ApiSwitchedOffError,
  NO_STORE_HEADER,
} from '../common/http/errors/error.dto.js';
import { FencedBy, RUN_ATTEMPT_HEADER, WORKER_ID_HEADER, type Fence } from '../runs/http/request-headers.js';
import { RunSecretsDto } from './secret.dto.js';
import { RunSecretsService } from './run-secrets.service.js';

@ApiTags('secrets')
@Controller('runs')
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
  @ApiHeader({
    name: WORKER_ID_HEADER,
    required: true,
    description: 'The worker that holds the run; 409 if another or none does.',
    schema: { type: 'string', minLength: 1, maxLength: 128, example: EXAMPLE_WORKER_ID },
  })
  @ApiHeader({
    name: RUN_ATTEMPT_HEADER,
    required: true,
    description: 'The current attempt; 409 if it is another.',
    schema: { type: 'integer', minimum: 1, maximum: 1000, example: 1 },
  })
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

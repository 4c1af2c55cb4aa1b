import { Body, Controller, Delete, Get, Header, HttpCode, Param, Post, Query } from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import { ApiErrors, NO_STORE_HEADER } from '../common/http/errors/error.dto.js';
import { API_KEY_ID_PARAM, BODY_EXAMPLES, namedExamples } from '../common/http/api-examples.js';
import { AllowScopes, type Caller } from './access.js';
import { CurrentCaller } from './api-key.guard.js';
import { ApiKeysService } from './api-keys.service.js';
import { ApiKeyDto, CreateApiKeyDto, CreatedApiKeyDto, ListApiKeysQueryDto } from './dto/api-key.dto.js';

@ApiTags('operations')
@Controller('api-keys')
@AllowScopes('admin')
export class ApiKeysController {
  constructor(private readonly keys: ApiKeysService) {}

  @Post()
  @Header('Cache-Control', 'no-store')
  @ApiOperation({
    operationId: 'createApiKey',
    summary: 'Create an API key',
    description: 'Only this response holds the key: the service stores its hash.',
  })
  @ApiBody({ type: CreateApiKeyDto, examples: namedExamples(BODY_EXAMPLES.createApiKey) })
  @ApiCreatedResponse({ type: CreatedApiKeyDto, description: 'The key.', headers: NO_STORE_HEADER })
  @ApiErrors(400, 413, 415, 503)
  create(@Body() body: CreateApiKeyDto, @CurrentCaller() caller: Caller): Promise<CreatedApiKeyDto> {
    return this.keys.create(body, caller);
  }

  @Get()
  @ApiOperation({
    operationId: 'listApiKeys',
    summary: 'List API keys, newest first',
    description: 'Includes expired and revoked keys. Excludes the keys in the settings of the service.',
  })
  @ApiOkResponse({ type: [ApiKeyDto], description: 'A page of API keys.' })
  @ApiErrors(400, 503)
  list(@Query() query: ListApiKeysQueryDto): Promise<ApiKeyDto[]> {
    return this.keys.list(query);
  }

  @Delete(':id')
  @HttpCode(204)
  @ApiOperation({
    operationId: 'revokeApiKey',
    summary: 'Revoke an API key',
    description:
      'The process that answers refuses the key at once, every other process within 5 seconds. ' +
      'Revoking a revoked key changes nothing.',
  })
  @ApiParam(API_KEY_ID_PARAM)
  @ApiNoContentResponse({ description: 'The key is revoked.' })
  @ApiErrors(400, 404, 503)
  revoke(@Param('id') id: string, @CurrentCaller() caller: Caller): Promise<void> {
    return this.keys.revoke(id, caller);
  }
}

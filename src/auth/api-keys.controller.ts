import { Body, Controller, Delete, Get, Header, HttpCode, Param, Post, Query } from '@nestjs/common';
import {
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import { ApiErrors } from '../http/error.dto.js';
import { AllowScopes, type Caller } from './access.js';
import { CurrentCaller } from './api-key.guard.js';
import { ApiKeysService } from './api-keys.service.js';
import { ApiKeyDto, CreateApiKeyDto, CreatedApiKeyDto, ListApiKeysQueryDto } from './dto/api-key.dto.js';

/** HTTP of API keys. */
@ApiTags('operations')
@Controller('api-keys')
@AllowScopes('admin')
export class ApiKeysController {
  constructor(private readonly keys: ApiKeysService) {}

  @Post()
  @Header('Cache-Control', 'no-store')
  @ApiOperation({
    operationId: 'createApiKey',
    summary: 'Make an API key',
    description: 'The answer holds the key, and nothing else ever will: only its hash is stored.',
  })
  @ApiCreatedResponse({
    type: CreatedApiKeyDto,
    headers: { 'Cache-Control': { schema: { type: 'string', enum: ['no-store'] } } },
  })
  @ApiErrors(400, 413, 415, 503)
  create(@Body() body: CreateApiKeyDto, @CurrentCaller() caller: Caller): Promise<CreatedApiKeyDto> {
    return this.keys.create(body, caller);
  }

  @Get()
  @ApiOperation({
    operationId: 'listApiKeys',
    summary: 'List API keys, newest first',
    description: 'Expired and revoked ones too; not the keys that the service was started with.',
  })
  @ApiOkResponse({ type: [ApiKeyDto] })
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
      'Refused from now on by the process that answers, and within 5 seconds by every other one. ' +
      'Revoking a revoked key changes nothing.',
  })
  @ApiParam({ name: 'id', description: 'Id of the key', format: 'uuid' })
  @ApiNoContentResponse({ description: 'Revoked, now or before.' })
  @ApiErrors(400, 404, 503)
  revoke(@Param('id') id: string, @CurrentCaller() caller: Caller): Promise<void> {
    return this.keys.revoke(id, caller);
  }
}

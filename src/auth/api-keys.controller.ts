import { Body, Controller, Delete, Get, Header, HttpCode, Param, Patch, Post, Query } from '@nestjs/common';
import { ApiCreatedResponse, ApiNoContentResponse, ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { TakesDatabaseTurn } from '../common/http/server/database-turns.js';
import { ApiResource, NO_STORE_HEADER } from '../common/http/errors/error.dto.js';
import { API_KEY_ID_PARAM } from '../common/http/api-examples.js';
import { AllowScopes, type Caller, AllowAnyKey, AllowBoundKeys } from './access.js';
import { CurrentCaller } from './api-key.guard.js';
import { ApiKeysService } from './api-keys.service.js';
import {
  ApiKeyDto,
  CreateApiKeyDto,
  CreatedApiKeyDto,
  ListApiKeysQueryDto,
  toWhoamiDto,
  UpdateApiKeyDto,
  WhoamiDto,
} from './api-key.dto.js';

@ApiTags('operations')
@Controller('api-keys')
@AllowScopes('admin')
@TakesDatabaseTurn()
export class ApiKeysController {
  constructor(private readonly keys: ApiKeysService) {}

  /**
   * Create an API key
   * @remarks Only this response holds the key: the service stores its hash.
   */
  @Post()
  @Header('Cache-Control', 'no-store')
  @ApiCreatedResponse({ type: CreatedApiKeyDto, description: 'The key.', headers: NO_STORE_HEADER })
  createApiKey(@Body() body: CreateApiKeyDto, @CurrentCaller() caller: Caller): Promise<CreatedApiKeyDto> {
    return this.keys.create(body, caller);
  }

  /**
   * List API keys, newest first
   * @remarks Includes expired and revoked keys. Excludes the keys in the settings of the service.
   */
  @Get()
  @ApiOkResponse({ type: [ApiKeyDto], description: 'A page of API keys.' })
  listApiKeys(@Query() query: ListApiKeysQueryDto): Promise<ApiKeyDto[]> {
    return this.keys.list(query);
  }

  /**
   * Change the limits of an API key
   * @remarks The process that answers applies them at once, every other process within 5 seconds.
   */
  @Patch(':id')
  @ApiResource(API_KEY_ID_PARAM)
  @ApiOkResponse({ type: ApiKeyDto, description: 'The key.' })
  updateApiKey(
    @Param('id') id: string,
    @Body() body: UpdateApiKeyDto,
    @CurrentCaller() caller: Caller,
  ): Promise<ApiKeyDto> {
    return this.keys.update(id, body, caller);
  }

  /**
   * Revoke an API key
   * @remarks The process that answers refuses the key at once, every other process within 5 seconds. Revoking a revoked
   * key changes nothing.
   */
  @Delete(':id')
  @HttpCode(204)
  @ApiResource(API_KEY_ID_PARAM)
  @ApiNoContentResponse({ description: 'The key is revoked.' })
  revokeApiKey(@Param('id') id: string, @CurrentCaller() caller: Caller): Promise<void> {
    return this.keys.revoke(id, caller);
  }
}

@ApiTags('operations')
@Controller('whoami')
export class WhoamiController {
  /**
   * Get the name and the scopes of the API key
   * @remarks The API key is the one of the request.
   */
  @Get()
  @AllowAnyKey()
  @AllowBoundKeys()
  @Header('Cache-Control', 'no-store')
  @ApiOkResponse({ type: WhoamiDto, description: 'The API key.', headers: NO_STORE_HEADER })
  whoami(@CurrentCaller() caller: Caller): WhoamiDto {
    return toWhoamiDto(caller);
  }
}

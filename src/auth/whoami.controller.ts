import { Controller, Get, Header } from '@nestjs/common';
import { ApiOkResponse, ApiTags } from '@nestjs/swagger';
import { NO_STORE_HEADER } from '../common/http/errors/error.dto.js';
import { AllowAnyKey, AllowBoundKeys, type Caller } from './access.js';
import { CurrentCaller } from './api-key.guard.js';
import { toWhoamiDto, WhoamiDto } from './dto/api-key.dto.js';

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

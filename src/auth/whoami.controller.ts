import { Controller, Get, Header } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { ApiErrors, NO_STORE_HEADER } from '../common/http/errors/error.dto.js';
import { AllowAnyKey, AllowBoundKeys, type Caller } from './access.js';
import { CurrentCaller } from './api-key.guard.js';
import { toWhoamiDto, WhoamiDto } from './dto/api-key.dto.js';

@ApiTags('operations')
@Controller('whoami')
export class WhoamiController {
  @Get()
  @AllowAnyKey()
  @AllowBoundKeys()
  @Header('Cache-Control', 'no-store')
  @ApiOperation({
    operationId: 'whoami',
    summary: 'Get the name and the scopes of the API key',
    description: 'The API key is the one of the request.',
  })
  @ApiOkResponse({ type: WhoamiDto, description: 'The API key.', headers: NO_STORE_HEADER })
  @ApiErrors(400, 503)
  get(@CurrentCaller() caller: Caller): WhoamiDto {
    return toWhoamiDto(caller);
  }
}

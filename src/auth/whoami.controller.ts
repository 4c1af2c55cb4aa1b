import { Controller, Get, Header } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { ApiErrors } from '../http/error.dto.js';
import { AllowAnyKey, type Caller } from './access.js';
import { CurrentCaller } from './api-key.guard.js';
import { toWhoamiDto, WhoamiDto } from './dto/whoami.dto.js';

/** HTTP of the question whose key a request carries. */
@ApiTags('operations')
@Controller('whoami')
export class WhoamiController {
  @Get()
  @AllowAnyKey()
  @Header('Cache-Control', 'no-store')
  @ApiOperation({ operationId: 'whoami', summary: 'What the key of this request is called and may do' })
  @ApiOkResponse({
    type: WhoamiDto,
    headers: { 'Cache-Control': { schema: { type: 'string', enum: ['no-store'] } } },
  })
  @ApiErrors(400, 503)
  get(@CurrentCaller() caller: Caller): WhoamiDto {
    return toWhoamiDto(caller);
  }
}

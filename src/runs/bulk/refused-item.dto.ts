import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import type { ErrorBody } from '../../common/http/errors/error-response.js';
import { ErrorDto } from '../../common/http/errors/error.dto.js';

@ApiSchema({ name: 'RefusedItem', description: 'The item was refused.' })
export class RefusedItemDto {
  /** The status that the item would be refused with as a request of its own; after 500 or 503 it may be sent again. */
  @ApiProperty({ type: 'integer', enum: [400, 404, 409, 500, 503] })
  status: number;
  @ApiProperty({ type: ErrorDto })
  error: ErrorBody;
}

import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { SCOPES, type Caller, type Scope } from '../access.js';

@ApiSchema({ name: 'Whoami', description: 'The API key of the request.' })
export class WhoamiDto {
  /** Name of the key, as the audit log has it. */
  name: string;
  /** What the key is allowed to do; `admin` includes the others. */
  @ApiProperty({ enum: SCOPES, enumName: 'Scope', isArray: true })
  scopes: Scope[];
  /** From then on the key is refused; null: never. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  expires_at: string | null;
}

export function toWhoamiDto({ name, scopes, expiresAt }: Caller): WhoamiDto {
  return {
    name,
    scopes: SCOPES.filter((scope) => scopes.has(scope)),
    expires_at: expiresAt?.toISOString() ?? null,
  };
}

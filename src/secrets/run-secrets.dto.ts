import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { RegistryLoginDto } from './secret.dto.js';

@ApiSchema({ name: 'RunSecrets', description: 'The values of the secrets that a run uses.' })
export class RunSecretsDto {
  /** Values by environment variable. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  env: Record<string, string>;

  /** The login for the pull of the image; null: the run has none. */
  @ApiProperty({ type: RegistryLoginDto, nullable: true })
  registry: RegistryLoginDto | null;
}

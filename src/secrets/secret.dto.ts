import { base64Length } from '@longshore/common/binary';
import { ApiExtraModels, ApiProperty, ApiPropertyOptional, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import { isJsonObject } from '@longshore/common/json/json-value';
import { Check, IsText, OptionalField, SHOWN_TEXT } from '../common/http/validation/dto-decorators.js';
import { QueryInteger, QueryString } from '../common/http/validation/query-decorators.js';
import { PassByReference } from '../common/http/validation/free-form-json.js';
import { SECRET_KINDS, type SecretEntity, type SecretKind } from '../database/entities/security.entity.js';
import { MAX_VARIABLES, SECRET_NAME } from '../runs/options/names.js';

/** Largest and default number of secrets on a page. */
export const MAX_LISTED_SECRETS = 1000;

/** Largest value, in bytes, of a text in UTF-8; of a login as JSON. */
export const MAX_SECRET_BYTES = 65_536;

@ApiSchema({ name: 'RegistryLogin', description: 'The login of a container registry.' })
export class RegistryLoginDto {
  /** Host of the registry, with its port if it has one. @example registry.example.com */
  @IsText({ min: 1, max: 255, pattern: /^[\x21-\x7e]*$/, form: 'a host name without white space' })
  server: string;

  /** @example ci */
  @IsText({ min: 1, max: 255, ...SHOWN_TEXT })
  username: string;

  /** Password or token. */
  @IsText({ min: 1, max: MAX_SECRET_BYTES })
  password: string;
}

@ApiSchema({ name: 'SecretInput', description: 'A kind and a value.' })
@ApiExtraModels(RegistryLoginDto)
export class PutSecretDto {
  /** `opaque` is any text, or bytes; `registry` is the login of a container registry; `map` is environment variables. */
  @IsIn(SECRET_KINDS, { message: `$property must be one of ${SECRET_KINDS.join(', ')}` })
  @ApiProperty({ enum: SECRET_KINDS, enumName: 'SecretKind' })
  kind: SecretKind;

  /**
   * At most 65,536 bytes of UTF-8. Of kind `registry` an object, or its JSON text; of kind `map` an object of at most 100
   * variables to texts, or its JSON text. Either this or `value_base64`. No response shows it.
   */
  @Check(
    'isSecretValue',
    (value) => typeof value === 'string' || isJsonObject(value),
    'must be a string, or an object for the kinds registry and map',
  )
  @PassByReference()
  @OptionalField()
  @ApiPropertyOptional({
    anyOf: [
      { type: 'string', maxLength: MAX_SECRET_BYTES },
      { $ref: getSchemaPath(RegistryLoginDto) },
      { type: 'object', maxProperties: MAX_VARIABLES, additionalProperties: { type: 'string' } },
    ],
  })
  value?: string | object;

  /**
   * Of kind `opaque`: the value, at most 65,536 bytes, in base64 with padding and without line breaks. Bytes that are no UTF-8
   * text, or hold NUL, are for files of runs alone: a run that has the secret in a variable fails.
   */
  @IsText({ max: base64Length(MAX_SECRET_BYTES) })
  @OptionalField()
  value_base64?: string;
}

@ApiSchema({ name: 'Secret', description: 'A secret without its value.' })
export class SecretDto {
  name: string;
  @ApiProperty({ enum: SECRET_KINDS, enumName: 'SecretKind' })
  kind: SecretKind;
  @ApiProperty({ type: 'string', format: 'date-time' })
  created_at: string;
  /** When its kind or value was last replaced. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  updated_at: string;
}

export class ListSecretsQueryDto {
  /** Secrets of a page; 1,000 unless given. */
  @QueryInteger({ min: 1, max: MAX_LISTED_SECRETS })
  limit?: number;

  /** The page starts after this name. */
  @QueryString(SECRET_NAME)
  after?: string;
}

@ApiSchema({ name: 'SecretRotation', description: 'The result of a rotation.' })
export class SecretRotationDto {
  /** Secrets that this request encrypted again. */
  @ApiProperty({ type: 'integer' })
  rotated: number;
  /** Secrets that the first key does not encrypt: their key is not in SERVICE_SECRETS_KEY, or was just used elsewhere. */
  @ApiProperty({ type: 'integer' })
  remaining: number;
}

@ApiSchema({ name: 'RunSecrets', description: 'The values of the secrets that a run uses.' })
export class RunSecretsDto {
  /** Values by environment variable: those of `secrets_from`, and above them those of `secrets`. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  env: Record<string, string>;

  /** Values of the files whose secret is a text, by path. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  files: Record<string, string>;

  /** Values, in base64, of the files whose secret is no UTF-8 text or holds NUL, by path; absent without any. */
  @ApiPropertyOptional({ type: 'object', additionalProperties: { type: 'string' } })
  files_base64?: Record<string, string>;

  /** The login for the pull of the image; null: the run has none. */
  @ApiProperty({ type: RegistryLoginDto, nullable: true })
  registry: RegistryLoginDto | null;
}

/** A secret as responses have it. */
export function toSecretDto({
  name,
  kind,
  createdAt,
  updatedAt,
}: Omit<SecretEntity, 'ciphertext'>): SecretDto {
  return { name, kind, created_at: createdAt.toISOString(), updated_at: updatedAt.toISOString() };
}

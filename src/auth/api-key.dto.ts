import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import {
  Check,
  IsJsonInteger,
  IsText,
  IsTextList,
  OptionalField,
  SHOWN_TEXT,
} from '../common/http/validation/dto-decorators.js';
import { QueryInteger, QueryString } from '../common/http/validation/query-decorators.js';
import { IsTimeOrSpan } from '../common/http/validation/time-field.js';
import {
  LONGEST_NAME,
  SCOPES,
  WORKER_ID_OR_PREFIX,
  type KeyBinding,
  type Scope,
} from '../config/key-settings.js';
import type { Caller } from './access.js';
import type { ApiKeyRow } from './api-keys.repository.js';
import { readTime } from '@longshore/common/json/read-time';

/** Tags, and as many capabilities, to which a key may be bound: those that a worker may have. */
const MAX_NAMES = 100;

/** Stores of which a key may use some. */
const MAX_STORES = 100;

/** Largest and default number of keys on a page. */
export const MAX_LISTED_KEYS = 1000;

/** No control, format or line separator characters. */
const PRINTABLE = /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*$/u;

/** The same for the Basic Multilingual Plane, for validators without `\p{...}`. */
const PORTABLE_PRINTABLE =
  '^[^\\x00-\\x1f\\x7f-\\x9f\\xad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u180e\\u200b-\\u200f' +
  '\\u2028-\\u202e\\u2060-\\u2064\\u2066-\\u206f\\ufeff\\ufff9-\\ufffb]*$';

/** Form of the name of a store. */
const STORE_NAME = { min: 1, max: 128, ...SHOWN_TEXT } as const;

@ApiSchema({ name: 'ApiKeyUpdate', description: 'New limits of an API key.' })
export class UpdateApiKeyDto {
  /** Bytes of all files together that the key has uploaded, or may upload, and that exist; null: no limit. Absent: it stays as it is. */
  @IsOptional()
  @IsJsonInteger({ min: 0 })
  @ApiProperty({ required: false, nullable: true })
  max_file_bytes?: number | null;

  /** Stores of `SERVICE_FILES_STORES` that the key may use in runs; null: all. Absent: it stays as it is. */
  @IsOptional()
  @IsTextList(STORE_NAME, { max: MAX_STORES })
  @ApiProperty({ required: false, nullable: true })
  stores?: string[] | null;
}

@ApiSchema({ name: 'ApiKeyCreate', description: 'A new API key.' })
export class CreateApiKeyDto {
  /** Says whose key it is; the audit log shows it. @example nightly import */
  @ApiProperty({ pattern: PORTABLE_PRINTABLE })
  @IsText({ min: 1, max: 128, pattern: PRINTABLE, form: 'a printable text' })
  name: string;

  /** What the key is allowed to do; `admin` includes the others. @example ["client"] */
  @Check('isScopeList', isScopeList, `must be a list of different scopes out of ${SCOPES.join(', ')}`)
  @ApiProperty({ enum: SCOPES, enumName: 'Scope', isArray: true, minItems: 1, uniqueItems: true })
  scopes: Scope[];

  /**
   * Only with the scope `worker` alone: the key acts as these workers only, and reads only the runs that they hold or held.
   * Each is an id, or the beginning of ids followed by `*`. @example ["gpu-1", "site-a-*"]
   */
  @OptionalField()
  @IsTextList(
    {
      min: 1,
      max: 128,
      pattern: WORKER_ID_OR_PREFIX,
      form: 'a worker id, or the beginning of one followed by *',
    },
    { min: 1, max: 100 },
  )
  worker_ids?: string[];

  /**
   * Only with the scope `worker` alone: the workers of the key have no other tags, and it reads only runs whose selector has no
   * others. An empty list: no tags. Unless given, a worker may report any tag, and so get any run.
   */
  @OptionalField()
  @IsTextList({ min: 1, max: LONGEST_NAME, ...SHOWN_TEXT }, { max: MAX_NAMES })
  worker_tags?: string[];

  /** As `worker_tags`, for capabilities. */
  @OptionalField()
  @IsTextList({ min: 1, max: LONGEST_NAME, ...SHOWN_TEXT }, { max: MAX_NAMES })
  worker_capabilities?: string[];

  /** Bytes of all files together that the key has uploaded, or may upload, and that exist; no limit unless given. @example 10737418240 */
  @OptionalField()
  @IsJsonInteger({ min: 0 })
  max_file_bytes?: number;

  /** Stores of `SERVICE_FILES_STORES` that the key may use in runs; all unless given. An empty list: none. */
  @OptionalField()
  @IsTextList(STORE_NAME, { max: MAX_STORES })
  stores?: string[];

  /**
   * From then on the key is refused; never unless given. UNIX seconds, an ISO 8601 date and time with a zone, or a span from the
   * service's time on, such as `12h` or `90d`. @example 90d
   */
  @OptionalField()
  @IsTimeOrSpan((value) => readTime(value, Date.now()) !== null)
  expires_at?: string;
}

/** What a key is bound to. */
class KeyBindingDto {
  /** The workers to which the key is bound; null: any. */
  @ApiProperty({ type: 'array', items: { type: 'string' }, nullable: true })
  worker_ids: string[] | null;
  /** The tags that a worker of the key may have; null: any. */
  @ApiProperty({ type: 'array', items: { type: 'string' }, nullable: true })
  worker_tags: string[] | null;
  /** The capabilities that a worker of the key may have; null: any. */
  @ApiProperty({ type: 'array', items: { type: 'string' }, nullable: true })
  worker_capabilities: string[] | null;
}

@ApiSchema({ name: 'ApiKey', description: 'An API key without its secret.' })
export class ApiKeyDto extends KeyBindingDto {
  /** UUID version 7. */
  id: string;
  name: string;
  @ApiProperty({ enum: SCOPES, enumName: 'Scope', isArray: true })
  scopes: Scope[];
  /** Bytes that its files may have; null: any number. */
  @ApiProperty({ type: 'integer', nullable: true })
  max_file_bytes: number | null;
  /** Stores that it may use in runs; null: all. */
  @ApiProperty({ type: 'array', items: { type: 'string' }, nullable: true })
  stores: string[] | null;
  /** The beginning of the key, by which people tell keys apart. @example ls_client_Ab3d */
  prefix: string;
  @ApiProperty({ type: 'string', format: 'date-time' })
  created_at: string;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  expires_at: string | null;
  /** Written at most once a minute. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  last_used_at: string | null;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  revoked_at: string | null;
}

@ApiSchema({ name: 'CreatedApiKey', description: 'A new API key with its secret.' })
export class CreatedApiKeyDto extends ApiKeyDto {
  /** The secret. It is shown this once. */
  key: string;
}

export class ListApiKeysQueryDto {
  /** Keys of a page; 1,000 unless given. */
  @QueryInteger({ min: 1, max: MAX_LISTED_KEYS })
  limit?: number;

  /** Id of the last key of the page before; the page continues with older ones. */
  @QueryString()
  after?: string;
}

export function toApiKeyDto(row: ApiKeyRow): ApiKeyDto {
  return {
    id: row.id,
    name: row.name,
    scopes: SCOPES.filter((scope) => row.scopes.includes(scope)),
    ...toKeyBindingDto(row),
    max_file_bytes: row.maxFileBytes === null ? null : Number(row.maxFileBytes),
    stores: row.stores,
    prefix: row.prefix,
    created_at: row.createdAt.toISOString(),
    expires_at: row.expiresAt?.toISOString() ?? null,
    last_used_at: row.lastUsedAt?.toISOString() ?? null,
    revoked_at: row.revokedAt?.toISOString() ?? null,
  };
}

@ApiSchema({ name: 'Whoami', description: 'The API key of the request.' })
export class WhoamiDto extends KeyBindingDto {
  /** Id of the key; `sender` of the events that it sends. */
  @ApiProperty({ format: 'uuid' })
  id: string;
  /** Name of the key, as the audit log has it; of a key of the settings `settings:` and its name, or its scopes and the first 8 hex digits of its SHA-256. */
  name: string;
  /** What the key is allowed to do; `admin` includes the others. */
  @ApiProperty({ enum: SCOPES, enumName: 'Scope', isArray: true })
  scopes: Scope[];
  /** From then on the key is refused; null: never. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  expires_at: string | null;
}

export function toWhoamiDto(caller: Caller): WhoamiDto {
  const { keyId, name, scopes, expiresAt } = caller;
  return {
    id: keyId,
    name,
    scopes: SCOPES.filter((scope) => scopes.has(scope)),
    ...toKeyBindingDto(caller),
    expires_at: expiresAt?.toISOString() ?? null,
  };
}

function toKeyBindingDto({ workerIds, workerTags, workerCapabilities }: KeyBinding): KeyBindingDto {
  return {
    worker_ids: workerIds && [...workerIds],
    worker_tags: workerTags && [...workerTags],
    worker_capabilities: workerCapabilities && [...workerCapabilities],
  };
}

function isScopeList(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    new Set(value).size === value.length &&
    value.every((item) => SCOPES.some((scope) => scope === item))
  );
}

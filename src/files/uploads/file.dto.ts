import { ApiExtraModels, ApiProperty, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import {
  IsJsonInteger,
  IsText,
  IsTextList,
  OptionalField,
  SHOWN_TEXT,
} from '../../common/http/validation/dto-decorators.js';
import { QueryBoolean } from '../../common/http/validation/query-decorators.js';
import { FILE_STATES, type FileEntity, type FileState } from '../../database/entities/file.entity.js';
import { CreatedByDto } from '../../runs/dto/op-run.dto.js';
import type { SignedUrl } from '../stores/file-store.js';
import { MAX_PARTS, type SignedPart } from './parts.js';

/** `type/subtype`, with parameters or without. */
const CONTENT_TYPE = /^[A-Za-z0-9!#$&^_.+-]+\/[A-Za-z0-9!#$&^_.+-]+(?: ?;[\x20-\x7e]*)?$/;

@ApiSchema({ name: 'FileCreate', description: 'A file that is to be uploaded.' })
export class CreateFileDto {
  /** What a download is called. @example train.csv */
  @IsText({ min: 1, max: 255, ...SHOWN_TEXT })
  name: string;

  /** Its size; at most what the service is set to take (`SERVICE_FILE_MAX_BYTES`). The store takes exactly this. @example 1048576 */
  @IsJsonInteger({ min: 0 })
  bytes: number;

  /** SHA-256 of its bytes, hexadecimal. The store takes nothing else, except of an upload in parts. */
  @OptionalField()
  @IsText({ pattern: /^[0-9a-f]{64}$/, form: 'a SHA-256 of 64 hexadecimal digits in lower case' })
  sha256?: string;

  /** Media type that a download has. @example text/csv */
  @OptionalField()
  @IsText({ min: 1, max: 255, pattern: CONTENT_TYPE, form: 'a media type, such as text/csv,' })
  content_type?: string;
}

@ApiSchema({ name: 'FileComplete', description: 'The parts of an upload.' })
export class CompleteFileDto {
  /** The `ETag` of the response to each part, in the order of the parts. */
  @IsTextList(
    { min: 1, max: 128, pattern: /^[\x21-\x7e]*$/, form: 'an ETag of visible ASCII characters' },
    { min: 1, max: MAX_PARTS },
  )
  etags: string[];
}

@ApiSchema({ name: 'FileUpload', description: 'The request that uploads a file. It needs no API key.' })
export class FileUploadDto {
  @ApiProperty({ type: 'string', enum: ['PUT'] })
  method: string;
  url: string;
  /** Headers that it must have. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  headers: Readonly<Record<string, string>>;
  /** Until when the URL works. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  expires_at: string;
}

@ApiSchema({
  name: 'FilePart',
  description: 'The request that uploads a part of a file. It needs no API key.',
})
export class FilePartDto {
  /** From 1 on. */
  @ApiProperty({ type: 'integer' })
  number: number;
  @ApiProperty({ type: 'string', enum: ['PUT'] })
  method: string;
  url: string;
  /** Headers that it must have. */
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string' } })
  headers: Readonly<Record<string, string>>;
  /** Bytes of the file that it has; they follow those of the part before. */
  @ApiProperty({ type: 'integer' })
  bytes: number;
}

@ApiSchema({ name: 'FileParts', description: 'The requests that upload a large file.' })
export class FilePartsDto {
  parts: FilePartDto[];
  /** Until when the URLs work; what is not completed by then is aborted. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  expires_at: string;
}

@ApiSchema({ name: 'FileCreated', description: 'A new file, and how it is uploaded.' })
@ApiExtraModels(FileUploadDto, FilePartsDto)
export class CreatedFileDto {
  /** Whoever knows it may read the file. */
  @ApiProperty({ format: 'uuid' })
  id: string;
  /** In one piece, or in parts with a bucket and more than `SERVICE_FILE_PART_BYTES`. */
  @ApiProperty({ oneOf: [FileUploadDto, FilePartsDto].map((type) => ({ $ref: getSchemaPath(type) })) })
  upload: FileUploadDto | FilePartsDto;
}

@ApiSchema({ name: 'File', description: 'A file.' })
export class FileDto {
  @ApiProperty({ format: 'uuid' })
  id: string;
  name: string;
  @ApiProperty({ type: 'integer' })
  bytes: number;
  /** Hexadecimal; null: neither the client nor the store told it. */
  @ApiProperty({ type: 'string', nullable: true })
  sha256: string | null;
  @ApiProperty({ type: 'string', nullable: true })
  content_type: string | null;
  /** `awaited`: it is not uploaded; `removed`: its bytes are gone, because nothing has used it for `SERVICE_FILE_RETENTION_DAYS`. */
  @ApiProperty({ enum: FILE_STATES })
  state: FileState;
  @ApiProperty({ type: CreatedByDto })
  created_by: CreatedByDto;
  @ApiProperty({ type: 'string', format: 'date-time' })
  created_at: string;
  /** Runs, also ended ones, versions of definitions, and schedules that use it. */
  @ApiProperty({ type: 'integer' })
  used_by: number;
  /** When its bytes were removed; null: they were not. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  removed_at: string | null;
}

export class FileContentQueryDto {
  /** `false`: the response is 200 with the URL, not a redirect. */
  @QueryBoolean()
  redirect?: boolean;
}

@ApiSchema({ name: 'FileUrl', description: 'Where a file is downloaded. It needs no API key.' })
export class FileUrlDto {
  url: string;
  /** Until when the URL works. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  expires_at: string;
}

@ApiSchema({ name: 'FileStore', description: 'A store of files that the operator has set.' })
export class FileStoreDto {
  /** By which runs name it. */
  name: string;
  /** `ro`: runs may read from it; `rw`: also write. */
  @ApiProperty({ enum: ['ro', 'rw'] })
  mode: string;
}

export function toFileDto(row: FileEntity, usedBy: number): FileDto {
  return {
    id: row.id,
    name: row.name,
    bytes: Number(row.bytes),
    sha256: row.sha256,
    content_type: row.contentType,
    // Rows that are deleted are never shown.
    state: row.state === 'deleted' ? 'removed' : row.state,
    created_by: { key_id: row.createdBy, key_name: row.createdByName },
    created_at: row.createdAt.toISOString(),
    used_by: usedBy,
    removed_at: row.removedAt?.toISOString() ?? null,
  };
}

export function toFileUploadDto({ method, url, headers, expiresAt }: SignedUrl): FileUploadDto {
  return { method, url, headers, expires_at: expiresAt.toISOString() };
}

export function toFilePartsDto(signed: readonly SignedPart[]): FilePartsDto {
  const parts = signed.map(({ number, bytes, put: { method, url, headers } }) => ({
    number,
    method,
    url,
    headers,
    bytes,
  }));
  return { parts, expires_at: signed[0]?.put.expiresAt.toISOString() ?? '' };
}

import { ApiExtraModels, ApiProperty, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import { IsJsonInteger, IsTextList, OptionalField } from '../../common/http/validation/dto-decorators.js';
import {
  ARTIFACT_STATES,
  type ArtifactEntity,
  type ArtifactState,
} from '../../database/entities/artifact.entity.js';
import { MAX_PARTS } from '../uploads/parts.js';
import { FilePartsDto, FileUploadDto } from '../uploads/file.dto.js';

/** Names that one request asks URLs for, at most. */
const MAX_NAMES = 100;

@ApiSchema({
  name: 'ArtifactUrlsRequest',
  description: 'Artifacts that a worker wants to send to the store.',
})
export class ArtifactUrlsRequestDto {
  /** Of the template of outputs or of `artifacts.out`; of a pattern `NAME/RELATIVE`. */
  @IsTextList({ min: 1, max: 1024 }, { min: 1, max: MAX_NAMES })
  names: string[];

  /** Of the one artifact that is named: with a bucket, many bytes are sent in parts. */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: Number.MAX_SAFE_INTEGER })
  bytes?: number;

  /** With `bytes`: the upload in parts that was begun last goes on from this part, with new URLs; absent: another one begins. */
  @OptionalField()
  @IsJsonInteger({ min: 1, max: MAX_PARTS })
  first_part?: number;
}

@ApiSchema({ name: 'ArtifactUrls', description: 'Where a worker sends artifacts.' })
@ApiExtraModels(FileUploadDto, FilePartsDto)
export class ArtifactUrlsDto {
  /** By name: in one piece, or in parts. The report of an artifact that was sent in parts has their `etags`. */
  @ApiProperty({
    type: 'object',
    additionalProperties: {
      oneOf: [FileUploadDto, FilePartsDto].map((type) => ({ $ref: getSchemaPath(type) })),
    },
  })
  urls: Readonly<Record<string, FileUploadDto | FilePartsDto>>;
}

@ApiSchema({ name: 'ArtifactPlace', description: 'A place in a store that the operator has set.' })
export class ArtifactPlaceDto {
  store: string;
  key: string;
}

@ApiSchema({ name: 'Artifact', description: 'A file that a run has left, or was to leave.' })
export class ArtifactDto {
  /** As the run names it; of a pattern with the path behind its folder. */
  name: string;
  /** In the container; absent: nobody said. */
  @ApiProperty({ required: false })
  path?: string;
  /** As the store has it; null: it is missing. */
  @ApiProperty({ type: 'integer', nullable: true })
  bytes: number | null;
  /** Hexadecimal; null: neither the worker nor the store told it. */
  @ApiProperty({ type: 'string', nullable: true })
  sha256: string | null;
  @ApiProperty({ type: 'string', nullable: true })
  content_type: string | null;
  /** The attempt that left it: the last one that ended by COMPLETED or FAILED. */
  @ApiProperty({ type: 'integer' })
  attempt: number;
  /** `missing`: the store did not have it then; `removed`: its bytes are gone since. */
  @ApiProperty({ enum: ARTIFACT_STATES })
  state: ArtifactState;
  /** When that end was recorded. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  at: string;
  /** Where it went, if not to the store of the service. */
  @ApiProperty({ type: ArtifactPlaceDto, required: false })
  to?: ArtifactPlaceDto;
  /** When its bytes were removed; absent: they were not. */
  @ApiProperty({ type: 'string', format: 'date-time', required: false })
  removed_at?: string;
}

export function toArtifactDto(row: ArtifactEntity): ArtifactDto {
  const { name, path, bytes, sha256, contentType, attempt, state, at, store, key, removedAt } = row;
  return {
    name,
    ...(path !== null && { path }),
    bytes: bytes === null ? null : Number(bytes),
    sha256,
    content_type: contentType,
    attempt,
    state,
    at: at.toISOString(),
    ...(store !== null && key !== null && { to: { store, key } }),
    ...(removedAt && { removed_at: removedAt.toISOString() }),
  };
}

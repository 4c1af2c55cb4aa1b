import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Settings } from '../../config/settings.js';
import type { ArtifactUploadEntity } from '../../database/entities/artifact.entity.js';
import { execute, rows } from '../../database/sql/sql.js';
import type { PartUploads } from '../stores/file-store.js';
import { Stores } from '../stores/stores.js';
import { partBytesFor, signParts, type PartedUpload, type SignedPart } from '../uploads/parts.js';
import { NoOpenUpload } from './artifacts.errors.js';
import { artifactKey } from './object-keys.js';

type ArtifactId = Pick<ArtifactUploadEntity, 'runId' | 'attempt' | 'name'>;

/** Artifacts that are sent in parts, in the table `artifact_uploads`: of each the upload that was begun last. */
@Injectable()
export class ArtifactUploads {
  constructor(
    private readonly dataSource: DataSource,
    private readonly stores: Stores,
    @Inject(Settings) private readonly settings: Pick<Settings, 'filePartBytes'>,
  ) {}

  /** Whether so many bytes are sent in parts. */
  takesParts(bytes: number): boolean {
    return this.stores.main?.parts !== undefined && bytes > this.settings.filePartBytes;
  }

  /** Begins an upload in parts; an earlier one of the same artifact is given up. @throws StoreUnavailable */
  async start(artifact: ArtifactId, bytes: number, validS: number): Promise<SignedPart[]> {
    const parts = this.#parts();
    const { runId, attempt, name } = artifact;
    const key = artifactKey(artifact);
    const uploadId = await parts.start(key);
    const [earlier] = await rows<{ uploadId: string | null }>(
      this.dataSource,
      `with earlier as (
         select upload_id
           from artifact_uploads
          where run_id = $1::uuid and attempt = $2::integer and name = $3::text
       ),
       written as (
         insert into artifact_uploads (run_id, attempt, name, upload_id, started_at)
         values ($1::uuid, $2::integer, $3::text, $4::text, clock_timestamp())
         on conflict (run_id, attempt, name) do update
            set upload_id = excluded.upload_id, started_at = excluded.started_at
       )
       select (select upload_id from earlier) as "uploadId"`,
      [runId, attempt, name, uploadId],
    );
    if (earlier?.uploadId) await parts.abort(key, earlier.uploadId);
    const partBytes = partBytesFor(bytes, this.settings.filePartBytes);
    return signParts(parts, key, uploadId, { bytes, partBytes, validS });
  }

  /** Parts of the upload that was begun last, from one on. @throws NoOpenUpload */
  async goOn(artifact: ArtifactId, rest: Omit<PartedUpload, 'partBytes'>): Promise<SignedPart[]> {
    const uploadId = await this.#find(artifact);
    const partBytes = partBytesFor(rest.bytes, this.settings.filePartBytes);
    const signed =
      uploadId === undefined
        ? []
        : await signParts(this.#parts(), artifactKey(artifact), uploadId, { ...rest, partBytes });
    if (signed.length === 0) throw new NoOpenUpload(artifact.name);
    return signed;
  }

  /** Makes an object of the parts. @throws PartsRefused, StoreUnavailable */
  async complete(artifact: ArtifactId, etags: readonly string[]): Promise<void> {
    const { runId, attempt, name } = artifact;
    const uploadId = await this.#find(artifact);
    if (uploadId === undefined) return;
    await this.#parts().complete(artifactKey(artifact), uploadId, etags);
    await execute(
      this.dataSource,
      `delete from artifact_uploads
        where run_id = $1::uuid and attempt = $2::integer and name = $3::text and upload_id = $4::text`,
      [runId, attempt, name, uploadId],
    );
  }

  /** The upload of an artifact that was begun last; undefined: none is open. */
  async #find({ runId, attempt, name }: ArtifactId): Promise<string | undefined> {
    const [upload] = await rows<{ uploadId: string }>(
      this.dataSource,
      `select upload_id as "uploadId"
         from artifact_uploads
        where run_id = $1::uuid and attempt = $2::integer and name = $3::text`,
      [runId, attempt, name],
    );
    return upload?.uploadId;
  }

  #parts(): PartUploads {
    const { parts } = this.stores.required();
    if (!parts) throw new Error('the store takes no parts');
    return parts;
  }
}

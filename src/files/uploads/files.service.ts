import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/access.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import { Log } from '../../common/logging/logger.js';
import { Settings } from '../../config/settings.js';
import type { FileEntity } from '../../database/entities/file.entity.js';
import { isRunId } from '../../runs/machine/new-id.js';
import type { PartUploads } from '../stores/file-store.js';
import { Stores } from '../stores/stores.js';
import { PartsRefused } from '../stores/stores.errors.js';
import {
  toFileDto,
  toFilePartsDto,
  toFileUploadDto,
  type CompleteFileDto,
  type CreatedFileDto,
  type CreateFileDto,
  type FileDto,
  type FilePartsDto,
  type FileStoreDto,
  type FileUrlDto,
} from './file.dto.js';
import { FileRemovalRepository } from './file-removal.repository.js';
import { FileRepository, keyOf, type NewFile } from './file.repository.js';
import { partBytesFor, signParts } from './parts.js';
import { FileNotFound, FileNotUploaded, FileRemoved, FileWithoutParts } from './files.errors.js';

/** Seconds for which the URL of an upload works. */
const UPLOAD_S = 86_400;

/** Seconds for which the URL of a download works. */
const CONTENT_S = 300;

/**
 * Files that clients upload and download. Every method throws FilesNotConfigured without a store, and those that ask the store
 * StoreUnavailable; those with an id throw FileNotFound.
 */
@Injectable()
export class FilesService {
  constructor(
    private readonly files: FileRepository,
    private readonly removals: FileRemovalRepository,
    private readonly stores: Stores,
    @Inject(Settings) private readonly settings: Pick<Settings, 'fileMaxBytes' | 'filePartBytes'>,
    private readonly log: Log,
  ) {}

  /**
   * Makes a file and the URLs of its upload.
   * @param base address of the service for the caller
   * @returns a `FileDto` when the caller's key has a stored file that is the same
   * @throws InvalidRequest, TooManyFileBytes
   */
  async create(body: CreateFileDto, by: Caller, base: string): Promise<CreatedFileDto | FileDto> {
    const store = this.stores.required();
    const { fileMaxBytes: max } = this.settings;
    if (body.bytes > max) {
      throw new InvalidRequest(VALIDATION_FAILED, [`bytes must be at most ${max} (SERVICE_FILE_MAX_BYTES)`]);
    }
    const { name, bytes, sha256 = null, content_type: contentType = null } = body;
    const file: NewFile = { id: randomUUID(), name, bytes, sha256, contentType };
    const same = sha256 === null ? undefined : await this.files.findSame(file, by);
    if (same) return this.#show(same);
    await this.files.insert(file, by);
    try {
      const upload =
        store.parts && bytes > this.settings.filePartBytes
          ? await this.#startParts(store.parts, file)
          : toFileUploadDto(
              await store.signPut(keyOf(file.id), {
                validS: UPLOAD_S,
                bytes,
                isOnce: true,
                ...(sha256 !== null && { sha256 }),
                ...(contentType !== null && { contentType }),
                base,
              }),
            );
      return { id: file.id, upload };
    } catch (error) {
      await this.files.discard(file.id);
      throw error;
    }
  }

  async get(id: string): Promise<FileDto> {
    this.stores.required();
    return this.#show(await this.#settled(id));
  }

  /** @throws FileNotUploaded, FileRemoved */
  async content(id: string, base: string): Promise<FileUrlDto> {
    const store = this.stores.required();
    const { name, contentType, state, removedAt } = await this.#settled(id);
    if (state === 'awaited') throw new FileNotUploaded(id);
    if (removedAt) throw new FileRemoved(id, removedAt);
    const { url, expiresAt } = await store.signGet(keyOf(id), {
      validS: CONTENT_S,
      name,
      ...(contentType !== null && { contentType }),
      base,
    });
    return { url, expires_at: expiresAt.toISOString() };
  }

  /**
   * Completes an upload in parts; of a file that is not awaited it changes nothing.
   * @throws FileWithoutParts, PartsRefused, InvalidRequest
   */
  async complete(id: string, { etags }: CompleteFileDto): Promise<FileDto> {
    const { parts } = this.stores.required();
    const file = await this.#settled(id);
    if (file.state !== 'awaited') return this.#show(file);
    if (file.uploadId === null || !parts) throw new FileWithoutParts(id);
    const count = Math.ceil(Number(file.bytes) / Number(file.partBytes));
    if (etags.length !== count) {
      throw new InvalidRequest(VALIDATION_FAILED, [`etags must have ${count} items, one for each part`]);
    }
    try {
      await parts.complete(keyOf(id), file.uploadId, etags);
    } catch (error) {
      // A request beside this one, or the same one before, may have completed it.
      const now = error instanceof PartsRefused ? await this.#settled(id) : file;
      if (now.state === 'awaited') throw error;
    }
    return this.#show(await this.#settled(id));
  }

  /** @throws FileInUse */
  async delete(id: string, by: Caller): Promise<void> {
    const store = this.stores.required();
    const marked = isRunId(id) ? await this.removals.markDeleted(id, by) : null;
    if (!marked) throw new FileNotFound(id);
    await this.removals.removeObjects(store, [marked.file], marked.now);
    this.log.info('deleted a file', { file: id, by: by.name });
  }

  /** The stores by name that the caller's key may use. */
  listStores({ stores: allowed }: Pick<Caller, 'stores'>): FileStoreDto[] {
    this.stores.required();
    return this.stores.names().flatMap((name) => {
      const store = allowed === null || allowed.includes(name) ? this.stores.named(name) : undefined;
      return store ? [{ name, mode: store.mode }] : [];
    });
  }

  async #startParts(parts: PartUploads, { id, bytes, contentType }: NewFile): Promise<FilePartsDto> {
    const key = keyOf(id);
    const partBytes = partBytesFor(bytes, this.settings.filePartBytes);
    const uploadId = await parts.start(key, contentType ?? undefined);
    await this.files.noteUpload(id, uploadId, partBytes);
    return toFilePartsDto(await signParts(parts, key, uploadId, { bytes, partBytes, validS: UPLOAD_S }));
  }

  /** The file, after the store was asked if it is awaited. */
  async #settled(id: string): Promise<FileEntity> {
    const [found] = isRunId(id) ? await this.files.read([id]) : [];
    const file = found && (await this.files.settle(found));
    if (!file) throw new FileNotFound(id);
    return file;
  }

  async #show(file: FileEntity): Promise<FileDto> {
    return toFileDto(file, await this.files.countUses(file.id));
  }
}

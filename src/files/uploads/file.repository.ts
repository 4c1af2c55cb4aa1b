import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Caller } from '../../auth/access.js';
import { ApiKeyEntity } from '../../database/entities/security.entity.js';
import { FileEntity, FileUseEntity, type FileState } from '../../database/entities/file.entity.js';
import { NOW, UNUSED_HOURS } from '../../database/file-uses.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, rows } from '../../database/sql/sql.js';
import type { StoredObject } from '../stores/file-store.js';
import { Stores } from '../stores/stores.js';
import { TooManyFileBytes } from './files.errors.js';

/** A file that somebody may use. */
export interface StoredFile {
  readonly id: string;
  readonly name: string;
  readonly bytes: number;
  /** Hexadecimal; null: neither client nor store told it. */
  readonly sha256: string | null;
  readonly contentType: string | null;
  readonly state: FileState;
  /** Of the object in the main store. */
  readonly key: string;
}

/** What a client says of a file that it wants to upload. */
export interface NewFile extends Pick<FileEntity, 'id' | 'name' | 'sha256' | 'contentType'> {
  readonly bytes: number;
}

const FILES = new EntityTable(FileEntity);
const KEYS = new EntityTable(ApiKeyEntity);

/** The part of the store that has what clients upload. */
export const FILES_PREFIX = 'files/';

/** The key of a file's object. */
export function keyOf(id: string): string {
  return FILES_PREFIX + id;
}

/** The tables `files` and `file_uses`. */
@Injectable()
export class FileRepository {
  constructor(
    private readonly dataSource: DataSource,
    private readonly stores: Stores,
  ) {}

  /**
   * Files by their id, those that exist. The store is asked for those that are awaited.
   * @throws StoreUnavailable
   */
  async find(ids: readonly string[]): Promise<ReadonlyMap<string, StoredFile>> {
    if (ids.length === 0) return new Map();
    const found = await this.read(ids);
    const settled = await Promise.all(found.map((row) => this.settle(row)));
    return new Map(settled.flatMap((row) => (row ? [[row.id, toStoredFile(row)] as const] : [])));
  }

  /** Files that clients may see. */
  read(ids: readonly string[]): Promise<FileEntity[]> {
    return rows<FileEntity>(
      this.dataSource,
      `select ${FILES.select('f')} from ${FILES.name} f where f.id = any($1::uuid[]) and f.state <> 'deleted'`,
      [ids],
    );
  }

  /** Runs, versions of definitions and schedules that use a file. */
  countUses(fileId: string): Promise<number> {
    return this.dataSource.manager.countBy(FileUseEntity, { fileId });
  }

  /**
   * Asks the store for a file that is awaited, and notes when it has the bytes that were announced.
   * @returns undefined: it was deleted meanwhile
   * @throws StoreUnavailable
   */
  async settle(file: FileEntity): Promise<FileEntity | undefined> {
    const { main } = this.stores;
    if (file.state !== 'awaited' || main === null) return file;
    const object = await main.head(keyOf(file.id));
    return object === undefined || !isSame(file, object) ? file : this.noteStored(file.id, object);
  }

  /** @returns the file; undefined: it was deleted meanwhile */
  async noteStored(id: string, { sha256 }: Pick<StoredObject, 'sha256'>): Promise<FileEntity | undefined> {
    await execute(
      this.dataSource,
      `update ${FILES.name}
          set state = 'stored', sha256 = coalesce(sha256, $2::text), upload_id = null
        where id = $1::uuid and state = 'awaited'`,
      [id, sha256],
    );
    const [row] = await this.read([id]);
    return row;
  }

  /** The newest stored file of the key with this name, type and content. It counts as made now. */
  async findSame(file: NewFile, by: Pick<Caller, 'keyId'>): Promise<FileEntity | undefined> {
    const [row] = await rows<FileEntity>(
      this.dataSource,
      `update ${FILES.name} f
          set last_used_at = ${NOW}, due_at = ${NOW} + interval '${UNUSED_HOURS} hours'
        where f.id = (
                select id
                  from ${FILES.name}
                 where created_by = $1::uuid
                   and sha256 = $2::text
                   and bytes = $3::bigint
                   and name = $4::text
                   and content_type is not distinct from $5::text
                   and state = 'stored'
                 order by created_at desc
                 limit 1
              )
          and f.state = 'stored'
    returning ${FILES.select('f')}`,
      [by.keyId, file.sha256, file.bytes, file.name, file.contentType],
    );
    return row;
  }

  /**
   * Stores a file that is awaited. Two requests of a key with a limit wait for each other.
   * @throws TooManyFileBytes
   */
  insert(file: NewFile, by: Pick<Caller, 'keyId' | 'name'>): Promise<void> {
    return this.dataSource.transaction(async (manager) => {
      const { id, name, bytes, sha256, contentType } = file;
      await assertWithinLimit(manager, bytes, by);
      await execute(
        manager,
        `insert into ${FILES.name} (id, name, bytes, sha256, content_type, state, created_by, created_by_name,
                                    created_at, last_used_at, due_at)
         values ($1::uuid, $2::text, $3::bigint, $4::text, $5::text, 'awaited', $6::uuid, $7::text,
                 ${NOW}, ${NOW}, ${NOW} + interval '${UNUSED_HOURS} hours')`,
        [id, name, bytes, sha256, contentType, by.keyId, by.name],
      );
    });
  }

  /** Notes that a file is uploaded in parts. */
  async noteUpload(id: string, uploadId: string, partBytes: number): Promise<void> {
    const set = { uploadId, partBytes: String(partBytes) };
    await this.dataSource.manager.update(FileEntity, { id, state: 'awaited' }, set);
  }

  /** Removes the row of a file that could not be given out. */
  async discard(id: string): Promise<void> {
    await this.dataSource.manager.delete(FileEntity, { id, state: 'awaited' });
  }
}

/** @param manager in the transaction that inserts the file */
async function assertWithinLimit(
  manager: EntityManager,
  bytes: number,
  { keyId, name }: Pick<Caller, 'keyId' | 'name'>,
): Promise<void> {
  const [key] = await rows<{ readonly max: string }>(
    manager,
    `select max_file_bytes as max
       from ${KEYS.name}
      where id = $1::uuid and max_file_bytes is not null
        for no key update`,
    [keyId],
  );
  if (!key) return;
  const [files] = await rows<{ readonly held: string }>(
    manager,
    `select coalesce(sum(bytes), 0)::text as held
       from ${FILES.name}
      where created_by = $1::uuid and state in ('awaited', 'stored')`,
    [keyId],
  );
  const [max, held] = [Number(key.max), Number(files?.held)];
  if (held + bytes > max) throw new TooManyFileBytes(name, { max, held });
}

/** Whether the store has what the client announced. */
function isSame(file: FileEntity, object: StoredObject): boolean {
  const isOtherContent = file.sha256 !== null && object.sha256 !== null && file.sha256 !== object.sha256;
  return object.bytes === Number(file.bytes) && !isOtherContent;
}

function toStoredFile({ id, name, bytes, sha256, contentType, state }: FileEntity): StoredFile {
  return {
    id,
    name,
    bytes: Number(bytes),
    sha256,
    contentType,
    state: state === 'deleted' ? 'removed' : state,
    key: keyOf(id),
  };
}

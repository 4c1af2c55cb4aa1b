import { Inject, Injectable } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { Log } from '../common/logging/logger.js';
import { storeNamesOf, type StoreSettings } from '../config/file-stores.js';
import type { Scope } from '../config/key-settings.js';
import { Settings } from '../config/settings.js';
import type { Caller } from './access.js';
import { hashApiKey, makeApiKey, prefixOf } from './api-key.js';
import { ApiKeysRepository, type KeyPosition } from './api-keys.repository.js';
import { ApiKeyNotFound } from './auth.errors.js';
import {
  MAX_LISTED_KEYS,
  toApiKeyDto,
  type ApiKeyDto,
  type CreateApiKeyDto,
  type CreatedApiKeyDto,
  type ListApiKeysQueryDto,
  type UpdateApiKeyDto,
} from './api-key.dto.js';
import { readTime } from '@longshore/common/json/read-time';
import { ApiKeyCache } from './api-key-cache.js';

/** Fields that bind a key. */
const BINDINGS = ['worker_ids', 'worker_tags', 'worker_capabilities'] as const;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

@Injectable()
export class ApiKeysService {
  constructor(
    private readonly keys: ApiKeysRepository,
    private readonly cache: ApiKeyCache,
    private readonly log: Log,
    @Inject(Settings) private readonly settings: StoreSettings,
  ) {}

  /**
   * Creates a key and returns its secret, which is not stored.
   * @throws InvalidRequest for an expiry in the past, an unknown store, and for a binding of a key with another scope than `worker`
   */
  async create(body: CreateApiKeyDto, by: Caller): Promise<CreatedApiKeyDto> {
    if (body.scopes.some((scope) => scope !== 'worker')) {
      const bindings = BINDINGS.filter((field) => body[field] !== undefined);
      if (bindings.length > 0) {
        const rule = 'must be given with the scope worker only';
        throw new InvalidRequest(
          VALIDATION_FAILED,
          bindings.map((field) => `${field} ${rule}`),
        );
      }
    }
    this.#checkStores(body.stores);
    const key = makeApiKey(purposeOf(body.scopes));
    const row = await this.keys.insert(
      {
        id: uuidv7(),
        name: body.name,
        scopes: body.scopes,
        workerIds: body.worker_ids ?? null,
        workerTags: body.worker_tags ?? null,
        workerCapabilities: body.worker_capabilities ?? null,
        maxFileBytes: toColumn(body.max_file_bytes),
        stores: body.stores ?? null,
        prefix: prefixOf(key),
        hash: hashApiKey(key),
        expiresAt: body.expires_at === undefined ? null : readTime(body.expires_at, Date.now()),
      },
      by,
    );
    if (!row) throw new InvalidRequest(VALIDATION_FAILED, ['expires_at must lie in the future']);
    this.log.info('created an API key', {
      keyId: row.id,
      keyName: row.name,
      scopes: row.scopes,
      workerIds: row.workerIds,
      workerTags: row.workerTags,
      workerCapabilities: row.workerCapabilities,
      stores: row.stores,
      by: by.name,
    });
    return { ...toApiKeyDto(row), key };
  }

  /** Keys of any state, newest first. @throws InvalidRequest when `after` is not the id of a key */
  async list({ limit = MAX_LISTED_KEYS, after }: ListApiKeysQueryDto): Promise<ApiKeyDto[]> {
    const position = after === undefined ? null : await this.#position(after);
    return (await this.keys.list(position, limit)).map(toApiKeyDto);
  }

  /**
   * Changes limits of a key; other processes notice when their cache entries are too old.
   * @throws ApiKeyNotFound; InvalidRequest for an unknown store
   */
  async update(
    id: string,
    { max_file_bytes: maxFileBytes, stores }: UpdateApiKeyDto,
    by: Caller,
  ): Promise<ApiKeyDto> {
    this.#checkStores(stores);
    const limits = {
      ...(maxFileBytes !== undefined && { maxFileBytes: toColumn(maxFileBytes) }),
      ...(stores !== undefined && { stores }),
    };
    const key = UUID.test(id) ? await this.keys.change(id, limits, by) : null;
    if (key === null) throw new ApiKeyNotFound(id);
    this.cache.forget(key.hash);
    this.log.info('changed the limits of an API key', { keyId: id, ...limits, by: by.name });
    return toApiKeyDto(key);
  }

  /**
   * Revokes a key: here at once, in other processes when their cache entries are too old. Open responses to that key are
   * closed. Revoking a revoked key changes nothing.
   * @throws ApiKeyNotFound
   */
  async revoke(id: string, by: Caller): Promise<void> {
    const hash = UUID.test(id) ? await this.keys.revoke(id, by) : null;
    if (hash === null) throw new ApiKeyNotFound(id);
    this.cache.revoke(hash);
    this.log.info('revoked an API key', { keyId: id, by: by.name });
  }

  /** @throws InvalidRequest for a store that the settings do not have */
  #checkStores(names: readonly string[] | null = null): void {
    if (names === null || names.length === 0) return;
    const known = storeNamesOf(this.settings);
    const unknown = names.filter((name) => !known.includes(name));
    if (unknown.length === 0) return;
    throw new InvalidRequest(
      VALIDATION_FAILED,
      unknown.map((name) => `stores: '${name}' is not a store of SERVICE_FILES_STORES`),
    );
  }

  async #position(id: string): Promise<KeyPosition> {
    const position = UUID.test(id) ? await this.keys.findPosition(id) : null;
    if (!position) throw new InvalidRequest('The cursor is not the id of an API key');
    return position;
  }
}

function toColumn(bytes: number | null | undefined): string | null {
  return bytes === null || bytes === undefined ? null : String(bytes);
}

/** The purpose in the key's prefix. */
function purposeOf(scopes: readonly Scope[]): string {
  if (scopes.includes('admin')) return 'admin';
  const [only] = scopes;
  return scopes.length === 1 && only !== undefined ? only : 'multi';
}

import type { Log } from '../common/logging/logger.js';
import type { ApiKeySetting } from '../config/api-keys-setting.js';
import type { Settings } from '../config/settings.js';
import { ensureAdminKey, hasAdminKey } from './admin-key-file.js';
import type { ApiKeysRepository } from './api-keys.repository.js';

/** Injection token of the keys that the process was started with. */
export const STARTING_KEYS = Symbol('STARTING_KEYS');

/** A key that is good as long as the process runs; `key` is the secret itself. */
export interface StartingKey extends ApiKeySetting {
  /** Where it comes from: the first half of its name. */
  readonly origin: 'settings' | 'generated';
}

/**
 * The keys of the settings. Without any: the admin key in the data folder, which is made when nobody could call
 * otherwise, because the database has no usable key either. Once made it stays good until its file is removed.
 * @throws Error when the file cannot be read or written, or the database cannot be asked
 */
export async function startingKeys(
  { apiKeys, dataDir }: Pick<Settings, 'apiKeys' | 'dataDir'>,
  keys: ApiKeysRepository,
  log: Log,
): Promise<readonly StartingKey[]> {
  if (apiKeys.length > 0) return apiKeys.map((key) => ({ ...key, origin: 'settings' }));
  if (!(await hasAdminKey(dataDir)) && (await keys.hasUsable())) {
    log.info('API keys come from the database alone');
    return [];
  }
  const { key, path, created } = await ensureAdminKey(dataDir);
  log.info(`${created ? 'made an admin API key, kept in' : 'the admin API key is in'} ${path}`);
  return [{ scope: 'admin', key, origin: 'generated' }];
}

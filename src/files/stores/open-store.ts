import { join } from 'node:path';
import { errorText } from '@longshore/common/errors';
import type { Clock } from '../../common/clock.js';
import { monotonicMs } from '../../common/monotonic-ms.js';
import {
  parseStoreUrl,
  readCredentials,
  type BucketAddress,
  type Credentials,
  type StoreAddress,
} from '../../config/file-stores.js';
import type { Settings } from '../../config/settings.js';
import { FolderStore } from './folder-store.js';
import { S3Store } from './s3-store.js';
import { StoreUnavailable } from './stores.errors.js';

/** A file of keys is read again after so long. */
const CREDENTIALS_MS = 60_000;

/** Opens the store of SERVICE_FILES_URL. @returns null without one @throws Error when a folder cannot be used */
export async function openStore(
  settings: Settings,
  clock: Pick<Clock, 'epochMs'>,
): Promise<FolderStore | S3Store | null> {
  const address = addressOf(settings);
  switch (address.kind) {
    case 'none':
      return null;
    case 'folder': {
      const { filesBaseUrl: baseUrl, filesMinFreeMb: minFreeMb } = settings;
      return FolderStore.open({ path: address.path, baseUrl, minFreeMb }, clock);
    }
    case 'bucket':
      return openBucket(address, settings);
  }
}

/** @param credentialsFile undefined: the keys of the settings */
export function openBucket(address: BucketAddress, settings: Settings, credentialsFile?: string): S3Store {
  return new S3Store(
    address,
    credentialsFile === undefined ? () => keysOf(settings) : keysIn(credentialsFile),
  );
}

/** A folder that only one host has would give files that other hosts do not find. */
function addressOf({ filesUrl, databaseUrl, dataDir }: Settings): StoreAddress {
  if (filesUrl !== undefined) return parseStoreUrl(filesUrl);
  return databaseUrl === undefined ? { kind: 'folder', path: join(dataDir, 'files') } : { kind: 'none' };
}

function keysOf({ awsAccessKeyId = '', awsSecretAccessKey = '', awsSessionToken }: Settings): Credentials {
  return { accessKeyId: awsAccessKeyId, secretAccessKey: awsSecretAccessKey, sessionToken: awsSessionToken };
}

/** The keys of a file, which another program may replace. */
function keysIn(path: string): () => Credentials {
  let credentials: Credentials | undefined;
  let readAt = 0;
  return () => {
    const now = monotonicMs();
    if (credentials !== undefined && now - readAt < CREDENTIALS_MS) return credentials;
    try {
      credentials = readCredentials(path);
    } catch (error) {
      if (credentials === undefined) throw new StoreUnavailable(errorText(error), error);
    }
    readAt = now;
    return credentials;
  };
}

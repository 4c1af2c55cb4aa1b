import { parseNetworks } from '@longshore/common/networks';
import { within, type SettingValue } from '@longshore/common/settings/settings-reader';
import { number, optional } from './setting-table.js';

const GB = 1_000_000_000;
const MAX_GB = 1_000_000;

/** Settings of the files that runs fetch. */
export const FILE_SETTINGS = {
  maxCacheBytes: {
    ...number(
      'SERVICE_WORKER_CACHE_GB',
      { min: 0, max: MAX_GB, default: 10, of: 'GB (10^9 bytes)' },
      'Size of the cache of files that runs fetch (`artifacts`), in the folder of SERVICE_WORKER_STATE_DIR; beyond it, those used least recently are removed. With 0, none is kept.',
    ),
    check: (value: SettingValue) => {
      const count = within(0, MAX_GB)(value);
      return count === undefined ? undefined : count * GB;
    },
  },
  fetchNetworks: optional(
    'SERVICE_WORKER_FETCH_NETWORKS',
    {
      allowed: 'a comma-separated list of networks in CIDR notation',
      check: (value) => (parseNetworks(String(value)) === undefined ? undefined : String(value)),
    },
    'Networks that are not public and from which runs may fetch a `url` of their option `artifacts`, such as 10.1.0.0/16; when unset, public addresses only.',
  ),
} as const;

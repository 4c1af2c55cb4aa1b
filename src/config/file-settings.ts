import { IsOptional, IsString, ValidateBy } from 'class-validator';
import { errorText } from '@longshore/common/errors';
import { Budgets } from './budgets.js';
import { overlap, parseNamedStores, parseStoreUrl } from './file-stores.js';
import { IntegerSetting, Secret, TextSetting } from './setting-decorators.js';

const NO_KEYS = 'it needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY';

/** Settings of the files that go in and out. */
export abstract class FileSettings extends Budgets {
  /** Undefined: a folder in the data directory with the embedded PostgreSQL, else none. */
  @TextSetting(
    'SERVICE_FILES_URL',
    {
      allowed:
        'none, file: with the path of a folder, or s3://bucket/prefix with the parameters of docs/files.md',
      check: HasNoFault(faultOfStore),
    },
    'Store of the files that go in and out: none, a folder (file:PATH) or a bucket (s3://bucket/prefix?...). When unset: the folder "files" in the data directory with the embedded PostgreSQL, else none.',
  )
  readonly filesUrl: string | undefined;

  @TextSetting(
    'SERVICE_FILES_BASE_URL',
    {
      allowed: 'an http or https URL without a query',
      check: /^https?:\/\/[^\s/?#@]+(?:\/[^\s?#]*)?$/,
    },
    'Address with which the URLs of a folder begin; when unset, that to which the request for them came.',
  )
  readonly filesBaseUrl: string | undefined;

  @IntegerSetting(
    'SERVICE_FILES_MIN_FREE_MB',
    { min: 0, max: 1_000_000_000, default: 1024 },
    'MB that stay free on the disk of a folder: an upload that would leave less is refused with 507.',
  )
  readonly filesMinFreeMb: number;

  @TextSetting(
    'SERVICE_FILES_STORES',
    {
      allowed: 'a comma-separated list of NAME=s3://bucket/prefix with the parameters of docs/files.md',
      check: HasNoFault(faultOfNamedStores),
    },
    'Buckets that runs may read, and with mode=rw write, by name: NAME=s3://bucket/prefix?..., separated by commas.',
  )
  readonly filesStores: string | undefined;

  @IntegerSetting(
    'SERVICE_FILE_MAX_BYTES',
    { min: 1, max: 5_497_558_138_880, default: 5_368_709_120 },
    'Largest file that a client may upload, in bytes; a larger one is refused with 400.',
  )
  readonly fileMaxBytes: number;

  /** S3 takes parts of these sizes. */
  @IntegerSetting(
    'SERVICE_FILE_PART_BYTES',
    { min: 5_242_880, max: 5_368_709_120, default: 536_870_912 },
    'Bytes above which a file is uploaded in parts of this size, to a bucket.',
  )
  readonly filePartBytes: number;

  @IntegerSetting(
    'SERVICE_FILE_RETENTION_DAYS',
    { min: 0, max: 36_500, default: 0 },
    'Days after the end of a run that the bytes of its files are kept; 0 keeps them as long as the run.',
  )
  readonly fileRetentionDays: number;

  @Secret(
    {
      env: 'AWS_ACCESS_KEY_ID',
      kind: 'text',
      allowed: 'the id of an access key',
      description: 'Access key of the buckets of SERVICE_FILES_URL and SERVICE_FILES_STORES.',
    },
    IsOptional(),
    IsString(),
  )
  readonly awsAccessKeyId: string | undefined;

  @Secret(
    {
      env: 'AWS_SECRET_ACCESS_KEY',
      kind: 'text',
      allowed: 'the secret of an access key',
      description: 'Secret of the access key.',
    },
    IsOptional(),
    IsString(),
  )
  readonly awsSecretAccessKey: string | undefined;

  @Secret(
    {
      env: 'AWS_SESSION_TOKEN',
      kind: 'text',
      allowed: 'the session token of an access key',
      description: 'Session token of an access key that expires.',
    },
    IsOptional(),
    IsString(),
  )
  readonly awsSessionToken: string | undefined;
}

/** @param faultOf undefined for a value that is allowed */
function HasNoFault(
  faultOf: (text: string, settings: FileSettings) => string | undefined,
): PropertyDecorator {
  const read = (text: unknown, settings: unknown): string | undefined => {
    try {
      return settings instanceof FileSettings ? faultOf(String(text), settings) : undefined;
    } catch (error) {
      return errorText(error);
    }
  };
  return ValidateBy({
    name: 'hasNoFault',
    validator: {
      validate: (text, context) => read(text, context?.object) === undefined,
      defaultMessage: (context) => read(context?.value, context?.object) ?? '',
    },
  });
}

function faultOfStore(text: string, settings: FileSettings): string | undefined {
  return parseStoreUrl(text).kind === 'bucket' && !hasKeys(settings) ? NO_KEYS : undefined;
}

function faultOfNamedStores(text: string, settings: FileSettings): string | undefined {
  const stores = parseNamedStores(text);
  const keyless = stores.find(({ credentialsFile }) => credentialsFile === undefined);
  if (keyless !== undefined && !hasKeys(settings)) return `${keyless.name}: ${NO_KEYS}, or credentials_file`;
  const main = mainOf(settings);
  const shared = stores.find(({ address }) => main !== undefined && overlap(address, main));
  return shared && `${shared.name} is around, inside or equal to the store of SERVICE_FILES_URL`;
}

function hasKeys({ awsAccessKeyId, awsSecretAccessKey }: FileSettings): boolean {
  return awsAccessKeyId !== undefined && awsSecretAccessKey !== undefined;
}

/** Undefined when it is unset, or wrong, which is a problem of its own setting. */
function mainOf({ filesUrl }: FileSettings): ReturnType<typeof parseStoreUrl> | undefined {
  try {
    return filesUrl === undefined ? undefined : parseStoreUrl(filesUrl);
  } catch {
    return undefined;
  }
}

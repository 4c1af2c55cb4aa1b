import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';

/** A server that others wrote. It has no types. */
const S3Server: new (options: object) => { run(): Promise<AddressInfo>; close(): Promise<void> } =
  createRequire(import.meta.url)('@20minutes/s3rver');

/** A bucket for the tests of a `describe` block. */
export interface S3Bucket {
  /** Settings of a service that keeps its files there. */
  readonly env: Readonly<Record<string, string>>;
}

/** The bucket of a `describe` block: it is there before the tests and removed after them. @param cors its rules in XML, if it has some */
export function useS3Bucket(cors?: string): S3Bucket {
  let folder: string;
  let server: InstanceType<typeof S3Server>;
  let port = 0;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-bucket-'));
    const configureBuckets = [{ name: 'files', configs: cors === undefined ? [] : [cors] }];
    const options = { address: '127.0.0.1', port, silent: true, directory: folder, configureBuckets };
    server = new S3Server(options);
    ({ port } = await server.run());
  });
  afterAll(async () => {
    await server.close();
    await rm(folder, { recursive: true, force: true });
  });
  return {
    get env() {
      return bucketSettings(port);
    },
  };
}

/** Settings of a service that keeps its files in the bucket `files` of such a server. */
export function bucketSettings(port: number): Readonly<Record<string, string>> {
  return {
    SERVICE_FILES_URL: `s3://files/base?endpoint=http://127.0.0.1:${port}`,
    AWS_ACCESS_KEY_ID: 'S3RVER',
    AWS_SECRET_ACCESS_KEY: 'S3RVER',
  };
}

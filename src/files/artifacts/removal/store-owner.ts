import { Injectable, Logger } from '@nestjs/common';
import type { FileStore } from '../../stores/file-store.js';
import { ObjectRemovalRepository } from './object-removal.repository.js';

/** The object that names the deployment of a store. */
const MARK = '.longshore';

/** Tells whether the store of files is this deployment's, so that nobody sweeps the files of another one. */
@Injectable()
export class StoreOwner {
  private readonly logger = new Logger('Files');

  constructor(private readonly repository: ObjectRemovalRepository) {}

  /** A store that names nobody becomes this deployment's. @throws StoreUnavailable */
  async isOurs(store: FileStore): Promise<boolean> {
    const own = await this.repository.readDeployment();
    const named = (await store.read(MARK))?.trim();
    if (named === undefined) await store.write(MARK, own);
    else if (named !== own)
      this.logger.warn(
        `the store of files is of the deployment ${named}, not of ${own}: it is not swept (${MARK})`,
      );
    return named === undefined || named === own;
  }
}

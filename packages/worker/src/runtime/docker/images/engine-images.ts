import type Dockerode from 'dockerode';
import type { RegistryLogin } from '../../../service-api/service-api.js';
import { EngineFault, RunFault, type Runtime, type RuntimeLog } from '../../runtime.js';
import { engineMessage } from '../engine/docker-engine.js';
import { isDiskFull } from '../engine/engine-verdict.js';
import { ImageAccess, isMarkName } from './image-access.js';
import type { ImagePolicy } from './image-policy.js';
import { ImagePull, PULL_TIMING, type PullTiming } from './image-pull.js';
import { canonicalName, parseImageReference } from './image-reference.js';
import { ImageStore, UNLIMITED, type ImageBudget, ImageUses } from './image-store.js';
import type { LoginFile } from './registry-login.js';

export interface ImageOptions {
  readonly log: RuntimeLog;
  readonly policy: ImagePolicy;
  readonly pullTiming?: PullTiming;
  /** Of SERVICE_WORKER_REGISTRY_LOGINS; absent or null: none. */
  readonly logins?: LoginFile | null;
  /** Absent: pulled images are kept. */
  readonly imageBudget?: ImageBudget;
  /** Milliseconds since 1970; absent: of the system. */
  readonly now?: () => number;
}

/** Pulls the images of runs, and removes those that are not needed, on one engine. */
export class EngineImages implements Pick<Runtime, 'keep' | 'pull' | 'removeUnusedImages'> {
  private readonly uses = new ImageUses();
  private store: Promise<ImageStore> | null = null;

  constructor(
    private readonly options: ImageOptions,
    private readonly connect: () => Promise<Dockerode>,
  ) {}

  keep(image: string): () => void {
    try {
      return this.uses.keep(canonicalName(parseImageReference(image)));
    } catch {
      // Its pull says what is wrong with it.
      return () => undefined;
    }
  }

  async pull(image: string, signal: AbortSignal, login: RegistryLogin | null = null): Promise<string> {
    const { pullTiming: timing = PULL_TIMING, policy, log, logins = null } = this.options;
    const reference = parseImageReference(image);
    if (isMarkName(reference))
      throw new RunFault(`'${image}' is a name that workers use`, { reported: 'image' });
    await policy.check(reference);
    const release = this.keep(image);
    const store = await this.openStore();
    try {
      const access = new ImageAccess(reference, login !== null, store, this.uses);
      const options = { timing, log, login, logins, access };
      const id = await new ImagePull(await this.connect(), reference, options).run(signal);
      void this.sweep(store);
      return id;
    } catch (error) {
      if (error instanceof EngineFault && isDiskFull(error.cause))
        await this.sweep(store, { maxAgeMs: 0, maxBytes: 0 });
      throw error;
    } finally {
      release();
    }
  }

  async removeUnusedImages(): Promise<void> {
    await this.sweep(await this.openStore());
  }

  /** Never rejects: images that stay are tried again. */
  private async sweep(store: ImageStore, budget?: ImageBudget): Promise<void> {
    try {
      await store.sweep(budget);
    } catch (error) {
      this.options.log.warn({ error: engineMessage(error) }, 'images not compared with their budget');
    }
  }

  private openStore(): Promise<ImageStore> {
    const { imageBudget: budget = UNLIMITED, log, now } = this.options;
    this.store ??= this.connect().then(
      (engine) => new ImageStore(engine, { uses: this.uses, budget, log, now }),
    );
    return this.store;
  }
}

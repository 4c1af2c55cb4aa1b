import { Injectable } from '@nestjs/common';
import { Semaphore } from '@longshore/common/semaphore';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { REPORT } from '../../runs/files/reported-files.js';
import type { Command } from '../../runs/machine/run-command.js';
import type { LeftFiles, NewArtifact } from '../../runs/machine/run.js';
import { templateNames } from '../../runs/options/artifact-references.js';
import type { ArtifactTarget } from '../../runs/options/run-artifacts.js';
import { showOptions } from '../../runs/options/stored-options.js';
import { RunNotFound } from '../../runs/run.errors.js';
import { inTime } from '../stores/in-time.js';
import { PartsRefused } from '../stores/stores.errors.js';
import { Stores } from '../stores/stores.js';
import { ArtifactRepository } from './artifact.repository.js';
import { ArtifactUploads } from './artifact-uploads.js';
import { attemptPrefix, objectOf, placeIn, type PlacedArtifact } from './object-keys.js';
import { leaves, readReport, type ReportedArtifact } from './reported-artifacts.js';

/** Questions to the store at a time. */
const AT_ONCE = 16;

/** Asks the store what attempts have left. */
@Injectable()
export class LeftFilesReader {
  constructor(
    private readonly stores: Stores,
    private readonly artifacts: ArtifactRepository,
    private readonly uploads: ArtifactUploads,
  ) {}

  /**
   * What is in the store of the names of the template and of the report. A folder takes no uploads of the attempt afterwards.
   * @throws InvalidRequest for a report that names something else, or of a success whose parts the store does not have; StoreUnavailable
   */
  async find(runId: string, attempt: number, { event }: Command<'event'>): Promise<LeftFiles> {
    const run = await this.artifacts.findRun(runId);
    if (!run) throw new RunNotFound(runId);
    const out = showOptions(run.options).artifacts?.out ?? {};
    const ofTemplate = templateNames(run.outputsTemplate);
    const reported = readReport(event.payload[REPORT], (name) => leaves(name, out, ofTemplate));
    const names = new Map<string, ReportedArtifact | undefined>(ofTemplate.map((name) => [name, undefined]));
    for (const one of reported) names.set(one.name, one);
    const found = await inTime(this.#find({ runId, attempt }, names, out));
    if (this.stores.main !== null && event.effect.kind === 'COMPLETED') assertWhole(found, names);
    return { attempt, artifacts: found };
  }

  async #find(
    run: Pick<PlacedArtifact, 'runId' | 'attempt'>,
    names: ReadonlyMap<string, ReportedArtifact | undefined>,
    out: Readonly<Record<string, ArtifactTarget>>,
  ): Promise<NewArtifact[]> {
    const { main } = this.stores;
    if (main !== null) {
      await this.#completeParts(run, [...names.values()]);
      await main.seal(attemptPrefix(run.runId, run.attempt));
    }
    const turns = new Semaphore(AT_ONCE);
    return Promise.all(
      [...names].map(([name, reported]) =>
        turns.run(() => this.#head(placeIn(out, { ...run, name }), reported)),
      ),
    );
  }

  /** Completes what was sent in parts; a report that is repeated finds it completed. */
  async #completeParts(
    run: Pick<PlacedArtifact, 'runId' | 'attempt'>,
    reported: readonly (ReportedArtifact | undefined)[],
  ): Promise<void> {
    for (const one of reported) {
      if (one?.etags === undefined) continue;
      try {
        await this.uploads.complete({ ...run, name: one.name }, one.etags);
      } catch (error) {
        // The object is not there then, or an earlier report has completed it.
        if (!(error instanceof PartsRefused)) throw error;
      }
    }
  }

  async #head(artifact: PlacedArtifact, reported: ReportedArtifact | undefined): Promise<NewArtifact> {
    const { name, store, key } = artifact;
    // A store that was switched off since the run was created has nothing.
    const place = this.stores.main === null ? undefined : objectOf(this.stores, artifact);
    const object = await place?.store.head(place.key);
    return {
      name,
      path: reported?.path ?? null,
      bytes: object ? String(object.bytes) : null,
      sha256: object ? (object.sha256 ?? reported?.sha256 ?? null) : null,
      etag: object?.etag ?? null,
      contentType: reported?.contentType ?? null,
      state: object ? 'stored' : 'missing',
      store,
      key,
    };
  }
}

/** A run has not succeeded whose parts became no file: its worker would take it as kept. @throws InvalidRequest */
function assertWhole(
  found: readonly NewArtifact[],
  names: ReadonlyMap<string, ReportedArtifact | undefined>,
): void {
  const lost = found.filter(({ name, state }) => state === 'missing' && names.get(name)?.etags !== undefined);
  if (lost.length > 0)
    throw new InvalidRequest(
      `The store does not have the parts of ${lost.map(({ name }) => `'${name}'`).join(', ')}`,
    );
}

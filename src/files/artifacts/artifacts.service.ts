import { Injectable } from '@nestjs/common';
import type { Fence } from '../../runs/http/request-headers.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { itemPath, VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import { isRunId } from '../../runs/machine/new-id.js';
import { templateNames } from '../../runs/options/artifact-references.js';
import { showOptions } from '../../runs/options/stored-options.js';
import { assertHolds } from '../../runs/http/held-run.guard.js';
import { RunNotFound } from '../../runs/run.errors.js';
import { Stores } from '../stores/stores.js';
import { toFilePartsDto, toFileUploadDto, type FileUrlDto } from '../uploads/file.dto.js';
import {
  toArtifactDto,
  type ArtifactDto,
  type ArtifactUrlsDto,
  type ArtifactUrlsRequestDto,
} from './artifact.dto.js';
import { ArtifactRepository, type RunWithFiles } from './artifact.repository.js';
import { ArtifactUploads } from './artifact-uploads.js';
import { ArtifactNotFound, ArtifactRemoved, ArtifactReplaced, NoOpenUpload } from './artifacts.errors.js';
import { objectOf, placeIn, type PlacedArtifact } from './object-keys.js';
import { leaves } from './reported-artifacts.js';
import { validSecondsOf } from './source-links.js';

/** Seconds for which the URL of a download works. */
const CONTENT_S = 300;

/**
 * What runs leave. Every method throws RunNotFound for an unknown run, FilesNotConfigured without a store, and those that ask the
 * store StoreUnavailable.
 */
@Injectable()
export class ArtifactsService {
  constructor(
    private readonly stores: Stores,
    private readonly artifacts: ArtifactRepository,
    private readonly uploads: ArtifactUploads,
  ) {}

  /** Empty before an attempt has ended by a report. */
  async list(runId: string): Promise<ArtifactDto[]> {
    await this.#run(runId);
    return (await this.artifacts.list(runId)).map(toArtifactDto);
  }

  /** Where an artifact is downloaded. @throws ArtifactNotFound, ArtifactRemoved, ArtifactReplaced */
  async content(runId: string, name: string, base: string): Promise<FileUrlDto> {
    await this.#run(runId);
    const [found] = await this.artifacts.find([{ run: runId, name }]);
    const artifact = found?.artifacts.find((one) => one.name === name);
    if (!artifact || artifact.state === 'missing') throw new ArtifactNotFound(name, runId);
    if (artifact.removedAt) throw new ArtifactRemoved(name, artifact.removedAt);
    const { store, key } = this.#objectOf(artifact);
    const object = await store.head(key);
    if (!object) throw new ArtifactNotFound(name, runId);
    if (object.etag !== artifact.etag) throw new ArtifactReplaced(name);
    const { contentType } = artifact;
    const { url, expiresAt } = await store.signGet(key, {
      validS: CONTENT_S,
      name: name.slice(name.lastIndexOf('/') + 1),
      ...(contentType !== null && { contentType }),
      base,
    });
    return { url, expires_at: expiresAt.toISOString() };
  }

  /** Where the worker that holds the run sends what it leaves. @throws RunRejected for who does not hold it, InvalidRequest */
  async urls(
    runId: string,
    fence: Fence,
    { names, bytes, first_part: firstPart }: ArtifactUrlsRequestDto,
    base: string,
  ): Promise<ArtifactUrlsDto> {
    const run = await this.#run(runId);
    assertHolds(run, runId, fence);
    const out = showOptions(run.options).artifacts?.out ?? {};
    const ofTemplate = templateNames(run.outputsTemplate);
    const problems = names.flatMap((name, at) =>
      leaves(name, out, ofTemplate) ? [] : [`${itemPath('names', at)}: the run leaves nothing of this name`],
    );
    if (bytes !== undefined && names.length > 1) problems.push('bytes is only for one name');
    if (bytes === undefined && firstPart !== undefined) problems.push('first_part is only with bytes');
    if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
    const urls = await Promise.all(
      names.map(async (name) => [name, await this.#upload(run, name, { bytes, firstPart }, base)] as const),
    );
    return { urls: Object.fromEntries(urls) };
  }

  async #upload(
    run: RunWithFiles,
    name: string,
    { bytes, firstPart }: { readonly bytes: number | undefined; readonly firstPart: number | undefined },
    base: string,
  ) {
    const validS = validSecondsOf(run);
    const out = showOptions(run.options).artifacts?.out ?? {};
    const artifact = placeIn(out, { runId: run.id, attempt: run.attempt, name });
    if (artifact.store === null && bytes !== undefined && this.uploads.takesParts(bytes))
      return toFilePartsDto(
        firstPart === undefined
          ? await this.uploads.start(artifact, bytes, validS)
          : await this.uploads.goOn(artifact, { bytes, validS, first: firstPart }),
      );
    if (firstPart !== undefined) throw new NoOpenUpload(name);
    const { store, key } = this.#objectOf(artifact);
    return toFileUploadDto(await store.signPut(key, { validS, base }));
  }

  /** @throws ArtifactNotFound when its store is no longer set */
  #objectOf(artifact: PlacedArtifact) {
    const object = objectOf(this.stores, artifact);
    if (!object) throw new ArtifactNotFound(artifact.name, artifact.runId);
    return object;
  }

  async #run(id: string): Promise<RunWithFiles> {
    this.stores.required();
    const run = isRunId(id) ? await this.artifacts.findRun(id) : null;
    if (!run) throw new RunNotFound(id);
    return run;
  }
}

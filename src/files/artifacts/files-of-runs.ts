import { Inject, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import type { Caller } from '../../auth/access.js';
import { FilesNotConfigured } from '../../common/errors/domain-error.js';
import { keyPath } from '../../common/http/validation/problems.js';
import { readEvent } from '../../runs/machine/run-event.js';
import type { Command, RunCommand } from '../../runs/machine/run-command.js';
import { isInExecution } from '../../runs/machine/run-state.js';
import type { LeftFiles, NewRun } from '../../runs/machine/run.js';
import {
  RunFiles,
  type FileService,
  type HandedOutRun,
  type HeldFields,
  type Holder,
  type LinkedFields,
} from '../../runs/files/run-files.js';
import { sourcesOf } from '../../runs/files/requested-files.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import { templateNames } from '../../runs/options/artifact-references.js';
import type { ArtifactSource, RunArtifacts } from '../../runs/options/run-artifacts.js';
import { showOptions } from '../../runs/options/stored-options.js';
import { RunRejected } from '../../runs/run.errors.js';
import { eventCommand } from '../../runs/runs.service.js';
import { StoreUnavailable } from '../stores/stores.errors.js';
import { Stores } from '../stores/stores.js';
import { FileRepository, type StoredFile } from '../uploads/file.repository.js';
import { ArtifactRepository, type FoundArtifact } from './artifact.repository.js';
import { findSources } from './found-sources.js';
import { SourceGone } from './artifacts.errors.js';
import { Concealment } from './concealment.js';
import { LeftFilesReader } from './left-files.js';
import { SourceLinks } from './source-links.js';

/** The files of runs, in the stores. */
@Injectable()
export class FilesOfRuns implements FileService, OnModuleInit {
  private readonly logger = new Logger('Files');
  readonly #concealment: Concealment | null;

  constructor(
    private readonly stores: Stores,
    private readonly files: FileRepository,
    private readonly artifacts: ArtifactRepository,
    private readonly links: SourceLinks,
    private readonly left: LeftFilesReader,
    private readonly journal: RunJournal,
    @Inject(RunFiles) private readonly runFiles: Pick<RunFiles, 'serveBy'>,
  ) {
    const others = stores.names().flatMap((name) => stores.named(name)?.store ?? []);
    this.#concealment = stores.main === null ? null : new Concealment(stores.main, others);
  }

  onModuleInit(): void {
    this.runFiles.serveBy(this);
  }

  get isConfigured(): boolean {
    return this.stores.main !== null;
  }

  async problemsOf(run: NewRun, caller: Pick<Caller, 'stores'> | undefined): Promise<readonly string[]> {
    const artifacts = showOptions(run.options).artifacts ?? {};
    const named = sourcesOf({ artifacts, inputs: run.inputs });
    const found = await findSources(named, this.files, this.artifacts);
    const parents = new Set((run.dependsOn ?? []).map(({ parentId }) => parentId));
    const ofSources = named.flatMap(({ place, source }) => {
      const { file, run: id, store } = source;
      if (file !== undefined) return fileProblem(found.fileOf(source), place);
      if (store !== undefined) return this.#storeProblem(store, 'ro', caller, `${place}.store`);
      if (id === undefined || parents.has(id)) return [];
      return artifactProblem(found.artifactOf(source), source, place);
    });
    return [...ofSources, ...this.#targetProblems(artifacts, caller)];
  }

  conceal(runId: string, command: RunCommand): RunCommand {
    return this.#concealment?.command(runId, command) ?? command;
  }

  async findLeft(runId: string, attempt: number, command: Command<'event'>): Promise<LeftFiles> {
    const left = await this.left.find(runId, attempt, command);
    const shown = (text: string | null): string | null =>
      text === null ? null : (this.#concealment?.text(text) ?? text);
    const artifacts = left.artifacts.map((artifact) => ({
      ...artifact,
      path: shown(artifact.path),
      contentType: shown(artifact.contentType),
    }));
    return { ...left, artifacts };
  }

  async handOut(run: HandedOutRun, workerId: string, base: string): Promise<LinkedFields | null> {
    try {
      this.stores.required();
      return await this.links.link(run, base);
    } catch (error) {
      if (!isEndOfRun(error)) throw error;
      await this.#fail(run, workerId, error);
      return null;
    }
  }

  async linkHeld(id: string, { workerId, attempt }: Holder, base: string): Promise<HeldFields | null> {
    const run = await this.artifacts.findRun(id);
    if (!run?.hasFiles || run.workerId !== workerId || run.attempt !== attempt) return null;
    if (!isInExecution(run.state)) return null;
    const linked = await this.links.link(run, base);
    return {
      ...linked,
      outputs: await this.links.linkTemplate(run, templateNames(run.outputsTemplate), base),
    };
  }

  /** Ends the attempt as its worker would. */
  async #fail(
    { id, attempt }: HandedOutRun,
    workerId: string,
    error: SourceGone | StoreUnavailable | FilesNotConfigured,
  ): Promise<void> {
    const cause = error instanceof StoreUnavailable ? 'infrastructure' : 'error';
    const { message } = error;
    const event = readEvent({ type: 'FAILED', msg: message, payload: { cause, error_message: message } });
    if ('problems' in event) throw new Error(event.problems.join('; '));
    this.logger.warn(`run ${id} is not handed out: ${message}`);
    try {
      await this.journal.change(id, eventCommand(event, { workerId, attempt }), {});
    } catch (refused) {
      // Somebody else has ended the attempt.
      if (!(refused instanceof RunRejected)) throw refused;
    }
  }

  #targetProblems({ out = {} }: RunArtifacts, caller: Pick<Caller, 'stores'> | undefined): string[] {
    return Object.entries(out).flatMap(([name, { to }]) =>
      to === undefined
        ? []
        : this.#storeProblem(to.store, 'rw', caller, `${keyPath('artifacts.out', name)}.to.store`),
    );
  }

  /** @param caller undefined: the service itself, which may use all */
  #storeProblem(
    name: string,
    mode: 'ro' | 'rw',
    caller: Pick<Caller, 'stores'> | undefined,
    place: string,
  ): string[] {
    const store = this.stores.named(name);
    if (!store) return [`${place}: there is no store '${name}'`];
    const { stores: allowed = null } = caller ?? {};
    if (allowed !== null && !allowed.includes(name))
      return [`${place}: the API key may not use the store '${name}'`];
    return mode === 'rw' && store.mode === 'ro' ? [`${place}: the store '${name}' is read only`] : [];
  }
}

/** Whether the files of a run cannot be given, now or at all. */
function isEndOfRun(error: unknown): error is SourceGone | StoreUnavailable | FilesNotConfigured {
  return (
    error instanceof SourceGone || error instanceof StoreUnavailable || error instanceof FilesNotConfigured
  );
}

function fileProblem(file: StoredFile | undefined, place: string): string[] {
  if (!file || file.state === 'removed') return [`${place}: there is no such file`];
  return file.state === 'awaited' ? [`${place}: the file is not uploaded yet`] : [];
}

function artifactProblem(
  found: FoundArtifact | undefined,
  { run, name, sha256, unpack }: ArtifactSource,
  place: string,
): string[] {
  if (found === undefined || found.hasEnded === null) return [`${place}: there is no run '${run}'`];
  if (!found.hasEnded) return [`${place}: run '${run}' has not ended; name it in depends_on`];
  const stored = found.artifacts.filter(({ state }) => state === 'stored');
  if (stored.length === 0) return [`${place}: run '${run}' has no artifact '${name}'`];
  const isFolder = !stored.some((artifact) => artifact.name === name);
  if (isFolder && place === 'inputs') return [`${place}: '${name}' of run '${run}' has several files`];
  return isFolder && (unpack !== undefined || sha256 !== undefined)
    ? [`${place} must have no unpack: '${name}' has several files`]
    : [];
}

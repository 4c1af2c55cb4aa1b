import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/access.js';
import type { Command, RunCommand } from '../machine/run-command.js';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { LeftFiles, NewRun, Run, RunRecord } from '../machine/run.js';
import { reportsLargeOutputs } from './reported-files.js';
import { FilesNotConfigured } from '../../common/errors/domain-error.js';

/** The fields of a run that its worker sees with URLs. */
export interface LinkedFields {
  readonly inputs: JsonObject;
  /** Absent without the option. */
  readonly artifacts?: JsonObject;
}

/** Those of a run that a worker reads while it holds it. */
export interface HeldFields extends LinkedFields {
  readonly outputs: JsonObject;
}

/** A worker, and the attempt at which it holds a run. */
export interface Holder {
  readonly workerId: string;
  readonly attempt: number;
}

/** A run that a worker gets. */
export type HandedOutRun = Pick<RunRecord, 'id' | 'attempt' | 'attemptTimeoutS' | 'inputs' | 'options'>;

/** What runs need of the store of files. */
export interface FileService {
  readonly isConfigured: boolean;
  /** One line for each file, run or store that a new run refers to and may not. */
  problemsOf(run: NewRun, caller: Pick<Caller, 'stores'> | undefined): Promise<readonly string[]>;
  /** The command without signatures of addresses of the store. */
  conceal(runId: string, command: RunCommand): RunCommand;
  /**
   * Where the worker gets the files of a run that it has claimed.
   * @param base address of the service for the worker
   * @returns null: one of them is not there, or there is no store, and the attempt has ended as FAILED
   */
  handOut(run: HandedOutRun, workerId: string, base: string): Promise<LinkedFields | null>;
  /** As a worker sees a run at an attempt; null: it does not hold it so, or the run has no files. @throws SourceGone, StoreUnavailable */
  linkHeld(id: string, holder: Holder, base: string): Promise<HeldFields | null>;
  /** What the attempt has left in the store; nothing of it changes afterwards. @throws InvalidRequest, StoreUnavailable */
  findLeft(runId: string, attempt: number, command: Command<'event'>): Promise<LeftFiles>;
}

/** The files of runs, which another module keeps. */
@Injectable()
export class RunFiles {
  #service: FileService | undefined;

  /** Sets what keeps files, before the first request. */
  serveBy(service: FileService): void {
    this.#service = service;
  }

  /** @throws FilesNotConfigured */
  get service(): FileService {
    if (this.#service?.isConfigured !== true) throw new FilesNotConfigured();
    return this.#service;
  }

  /** @throws FilesNotConfigured */
  assertConfigured(): void {
    void this.service;
  }

  /** As {@link FileService.handOut}. */
  handOut(run: HandedOutRun, workerId: string, base: string): Promise<LinkedFields | null> {
    return this.#kept.handOut(run, workerId, base);
  }

  /** As {@link FileService.findLeft}: without a store, nothing. */
  findLeft(runId: string, attempt: number, command: Command<'event'>): Promise<LeftFiles> {
    return this.#kept.findLeft(runId, attempt, command);
  }

  /** Also for runs of before the store was switched off. */
  get #kept(): FileService {
    if (this.#service === undefined) throw new FilesNotConfigured();
    return this.#service;
  }

  /** The command as it may be recorded. */
  conceal(run: Pick<Run, 'id' | 'hasFiles'>, command: RunCommand): RunCommand {
    const isConcerned =
      command.type === 'patch'
        ? command.outputs !== undefined
        : run.hasFiles === true || reportsLargeOutputs(command);
    const service = this.#service;
    return isConcerned && service?.isConfigured === true ? service.conceal(run.id, command) : command;
  }
}

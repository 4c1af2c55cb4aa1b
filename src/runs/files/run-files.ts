import { Injectable } from '@nestjs/common';
import type { Caller } from '../../auth/access.js';
import type { Command, RunCommand } from '../machine/run-command.js';
import type { LeftFiles, NewRun, Run } from '../machine/run.js';
import { reportsLargeOutputs } from './reported-files.js';
import { FilesNotConfigured } from './run-files.errors.js';

/** What runs need of the store of files. */
export interface FileService {
  readonly isConfigured: boolean;
  /** One line for each file, run or store that a new run refers to and may not. */
  problemsOf(run: NewRun, caller: Pick<Caller, 'stores'> | undefined): Promise<readonly string[]>;
  /** The command without signatures of addresses of the store. */
  conceal(runId: string, command: RunCommand): RunCommand;
  /** Asks the store what the attempt has left, of which nothing changes afterwards. @throws InvalidRequest, StoreUnavailable */
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

  /** The command as it may be recorded. */
  conceal(run: Pick<Run, 'id' | 'hasFiles'>, command: RunCommand): RunCommand {
    const service = this.#service;
    if (service?.isConfigured !== true) return command;
    const isConcerned =
      command.type === 'patch' ? command.outputs : run.hasFiles || reportsLargeOutputs(command);
    return isConcerned ? service.conceal(run.id, command) : command;
  }
}

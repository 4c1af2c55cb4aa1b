import { execFile } from 'node:child_process';
import { join } from 'node:path';
import type { BuiltStage } from './image-build.js';
import { cleanEnvironment, launch, makeDataDir, type TestProcess } from '../service-process.js';

/** Whom a process runs as. */
type User = { readonly uid: number; readonly gid: number } | undefined;

/** How a program ended and what it printed. */
export interface ProgramEnd {
  readonly code: number;
  readonly output: string;
}

/** A built stage whose programs run on this machine, as those of an image run in a container. */
export class BuiltImage {
  /** @param user who stands for the image's user; undefined: who runs the tests, which is no root then */
  constructor(
    readonly built: BuiltStage,
    private readonly user: User,
  ) {}

  /** Starts the image's command. */
  async start(env: Readonly<Record<string, string>>): Promise<TestProcess> {
    const [program = '', ...args] = this.built.command;
    return launch([program, ...args], {
      cwd: this.workdir,
      env: { ...this.env(), ...env },
      ...this.asUser(),
    });
  }

  /** Runs the image's health check, with the environment of the container. */
  healthcheck(env: Readonly<Record<string, string>>): Promise<ProgramEnd> {
    return this.run(this.built.healthcheck, env);
  }

  /** Runs a command to its end, found on the image's PATH. */
  async run(command: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<ProgramEnd> {
    const [program = '', ...args] = command;
    const home = await makeDataDir(this.user);
    const options = {
      cwd: this.workdir,
      env: { ...cleanEnvironment(), ...this.env(), HOME: home, ...env },
      timeout: 800_000,
      ...this.user,
    };
    return new Promise((resolve) => {
      execFile(program, args, options, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
        resolve({ code, output: stdout + stderr });
      });
    });
  }

  private get workdir(): string {
    return join(this.built.root, this.built.workdir);
  }

  private asUser(): { user?: { uid: number; gid: number } } {
    return this.user === undefined ? {} : { user: this.user };
  }

  /** What ENV says, with the image's own paths as they are on this machine. */
  private env(): Record<string, string> {
    const onMachine = (part: string): string => {
      if (part === '$PATH') return process.env['PATH'] ?? '';
      return /^\/(?:longshore|var)\//.test(part) ? join(this.built.root, part) : part;
    };
    return Object.fromEntries(
      Object.entries(this.built.env).map(([name, value]) => [
        name,
        value.split(':').map(onMachine).join(':'),
      ]),
    );
  }
}

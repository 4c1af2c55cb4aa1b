import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { launch, makeDataDir, PROJECT, type Outputs, type TestProcess } from '../service-process.js';

/** The built command line. */
const CLI_MAIN = join(PROJECT, 'packages', 'cli', 'dist', 'main.js');

/** How the command line ended, and what it printed. */
export interface CliEnd extends Outputs {
  readonly code: number | null;
}

/** A person with a home folder of her own, who types commands. */
export class Cli {
  private constructor(
    /** Holds what `login` keeps. */
    readonly configHome: string,
    /** Where commands run: it has `examples` of the project, and `bin/longshore`. */
    readonly folder: string,
    private readonly env: Readonly<Record<string, string>>,
  ) {}

  /** @param env for every command; without it nothing names a service */
  static async make(env: Readonly<Record<string, string>> = {}): Promise<Cli> {
    const folder = await makeDataDir();
    const configHome = join(folder, 'config');
    await mkdir(configHome);
    await mkdir(join(folder, 'bin'));
    await symlink(join(PROJECT, 'examples'), join(folder, 'examples'));
    const program = `#!/bin/sh\nexec '${process.execPath}' '${CLI_MAIN}' "$@"\n`;
    await writeFile(join(folder, 'bin', 'longshore'), program, { mode: 0o755 });
    return new Cli(configHome, folder, env);
  }

  /** Starts a command. */
  start(...args: readonly string[]): Promise<TestProcess> {
    return launch(CLI_MAIN, { args, cwd: this.folder, env: this.environment() });
  }

  /** Runs a command to its end. */
  async run(...args: readonly string[]): Promise<CliEnd> {
    return ended(await this.start(...args));
  }

  /** Starts lines of a shell, in which `longshore` is a command. */
  startShell(script: string): Promise<TestProcess> {
    return launch(['bash', '-euc', script], { cwd: this.folder, env: this.environment() });
  }

  /** Runs lines of a shell to their end. */
  async shell(script: string): Promise<CliEnd> {
    return ended(await this.startShell(script));
  }

  private environment(): Record<string, string> {
    const path = `${join(this.folder, 'bin')}:${process.env['PATH'] ?? ''}`;
    return {
      PATH: path,
      XDG_CONFIG_HOME: this.configHome,
      XDG_STATE_HOME: join(this.folder, 'state'),
      ...this.env,
    };
  }
}

/** The end of a command that was started. */
export async function ended(started: TestProcess): Promise<CliEnd> {
  const { code } = await started.exited;
  const { output, stdout, stderr } = started;
  return { code, output, stdout, stderr };
}

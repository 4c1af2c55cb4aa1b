import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { makeDataDir, PROJECT } from '../service-process.js';

/** Where Debian puts Compose: a program of its own or a plugin, which is the same program. */
const PLACES = [
  '/usr/bin/docker-compose',
  '/usr/libexec/docker/cli-plugins/docker-compose',
  '/usr/lib/docker/cli-plugins/docker-compose',
  '/usr/local/lib/docker/cli-plugins/docker-compose',
  '/usr/local/bin/docker-compose',
];

/** How a command ended and what it printed. */
export interface CommandEnd {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A service of the compose file, as far as the tests look at it. */
export interface ComposeService {
  readonly image: string;
  readonly entrypoint?: readonly string[];
  readonly command?: string | readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly healthcheck?: { readonly disable?: boolean; readonly test?: readonly string[] };
  readonly restart?: string;
  readonly stop_grace_period?: string;
  readonly profiles?: readonly string[];
  readonly user?: string;
  readonly group_add?: readonly string[];
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly mem_limit?: string;
  readonly pids_limit?: number;
  readonly logging?: { readonly options?: Readonly<Record<string, string>> };
  readonly build?: { readonly context: string; readonly dockerfile: string; readonly target: string };
}

/** The compose file, anchors resolved, variables as they are written. */
export interface ComposeFile {
  /** Prefix of containers, volumes and networks. */
  readonly name?: string;
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

/** The compose file as YAML reads it. */
export function readComposeFile(): ComposeFile {
  return parse(readFileSync(join(PROJECT, 'docker', 'compose.yaml'), 'utf8'), { merge: true });
}

/** Docker's Compose; null where it is not installed. */
export function composeCommand(): string | null {
  return PLACES.find((path) => existsSync(path)) ?? null;
}

/** A copy of `docker/` beside this checkout, as in a fresh clone: without keys. */
export class ComposeProject {
  private constructor(readonly folder: string) {}

  static async make(): Promise<ComposeProject> {
    const root = await makeDataDir();
    const folder = join(root, 'docker');
    mkdirSync(folder);
    cpSync(join(PROJECT, 'docker'), folder, {
      recursive: true,
      filter: (path) => !path.endsWith('/.env') && !path.endsWith('.key'),
    });
    symlinkSync(join(PROJECT, 'package.json'), join(root, 'package.json'));
    return new ComposeProject(folder);
  }

  /** Runs `docker/make-env.sh` from another working directory. */
  makeEnv(): Promise<CommandEnd> {
    return run('/bin/sh', [join(this.folder, 'make-env.sh')]);
  }

  /** `docker compose config`: checks the file against Compose's own schema and prints it with all variables in place. */
  config(command: string): Promise<CommandEnd> {
    const path = join(this.folder, 'compose.yaml');
    // Compose 1, which distributions still have, does not know the project's name.
    writeFileSync(path, readFileSync(path, 'utf8').replace(/^name: .*$/m, ''));
    return run(command, ['-f', path, 'config']);
  }
}

function run(program: string, args: readonly string[]): Promise<CommandEnd> {
  return new Promise((resolve) => {
    // Nothing of this machine's environment takes the place of a variable that is missing.
    const env = { PATH: process.env['PATH'] ?? '', HOME: '/nowhere' };
    execFile(program, args, { cwd: '/', env, timeout: 800_000 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      resolve({ code, stdout, stderr });
    });
  });
}

import { fileHint, type ShownFile } from '../runtime/file-hint.js';
import type { RunContainer } from '../service-api/service-api.js';
import { contentOf, DEFAULT_MODE } from './run-spec.js';

/** The exit codes of a program that cannot be executed, or is not found. */
const NOT_EXECUTED: ReadonlySet<number> = new Set([126, 127]);

const DENIED = /permission denied|operation not permitted/i;

/**
 * What to look at when a container has failed, as a sentence; null: nothing.
 * @param lines the last ones of its log
 */
export function failureHint(
  { files, command, args, user }: Pick<RunContainer, 'files' | 'command' | 'args' | 'user'>,
  exitCode: number,
  lines: readonly string[],
): string | null {
  const words = [...(command ?? []), ...(args ?? []), ...lines];
  const ofFile = NOT_EXECUTED.has(exitCode) ? fileHint(shownFiles(files), words) : null;
  const mayBeRoot = user === null || /^0(?::|$)/.test(user);
  if (ofFile !== null || !mayBeRoot || !lines.some((line) => DENIED.test(line))) return ofFile;
  return 'If it ran as root: root has no capabilities here, so that files of other users are closed to it; give the run the `user` to whom they belong';
}

function shownFiles(files: RunContainer['files']): readonly ShownFile[] {
  return Object.entries(files).map(([path, file]) => ({
    path,
    content: contentOf(file) ?? '',
    mode: Number.parseInt(file.mode ?? DEFAULT_MODE, 8),
  }));
}

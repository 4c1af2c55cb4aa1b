import { gunzipSync, gzipSync } from 'node:zlib';
import type { RunArtifacts, StoredArtifact, Upload, UploadRequest } from '../service-api/run-artifacts.js';

/** Files of the folder in which a helper finds what it is to do. They have signed URLs: never log them. */
export const TRANSFER_FILES = {
  sources: 'sources.json.gz',
  targets: 'targets.json.gz',
  answer: 'answer.json.gz',
} as const;

/** What a helper fetches before the start of the program. */
export interface TransferSources {
  readonly in: RunArtifacts['in'];
  /** In which the program leaves what it gives. */
  readonly folders: readonly string[];
  /** SERVICE_WORKER_FETCH_NETWORKS; null: none. */
  readonly networks: string | null;
  /** When a launcher has written it, in milliseconds since 1970: it does so again while it follows the run. */
  readonly atMs: number;
}

/** What a helper sends after the end of the program. */
export interface TransferTargets {
  readonly out: RunArtifacts['out'];
}

/** What the launcher tells a helper once the program has ended. */
export interface TransferAnswer {
  readonly hasSucceeded: boolean;
  /** Of the newest question that is answered; 0: none was. */
  readonly id: number;
  /** By names of that question. */
  readonly uploads: Readonly<Record<string, Upload>>;
  /** Whether nothing more is answered. */
  readonly isOver: boolean;
}

/** What a helper says, one line each. */
export type TransferLine =
  | { readonly kind: 'note'; readonly text: string }
  /** Asks where files go. Ids grow by one; the next question follows the answer. */
  | { readonly kind: 'ask'; readonly id: number; readonly request: UploadRequest }
  | { readonly kind: 'stored'; readonly artifact: StoredArtifact }
  | { readonly kind: 'end'; readonly missing: readonly string[] }
  /** @property isRun whether it would be so on every machine */
  | { readonly kind: 'fault'; readonly isRun: boolean; readonly message: string };

/** Exit code of a helper for what would be so on every machine; its last words say what. */
export const RUN_FAULT_EXIT = 3;

const PREFIX = 'longshore-files ';

/** A line, without its end. */
export function formatLine(line: TransferLine): string {
  return PREFIX + JSON.stringify(line);
}

/** Null: it is no line of a helper. */
export function parseLine(text: string): TransferLine | null {
  if (!text.startsWith(PREFIX)) return null;
  try {
    const line: TransferLine = JSON.parse(text.slice(PREFIX.length));
    return line;
  } catch {
    return null;
  }
}

/** What is in which of {@link TRANSFER_FILES}. */
export interface TransferMessages {
  readonly sources: TransferSources;
  readonly targets: TransferTargets;
  readonly answer: TransferAnswer;
}

/** The content of one of {@link TRANSFER_FILES}. */
export function packMessage(message: TransferMessages[keyof TransferMessages]): Buffer {
  return gzipSync(JSON.stringify(message));
}

/** The opposite. */
export function unpackMessage<K extends keyof TransferMessages>(
  _kind: K,
  content: Uint8Array,
): TransferMessages[K] {
  const message: TransferMessages[K] = JSON.parse(gunzipSync(content).toString());
  return message;
}

import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import { BUSYBOX } from './engine-programs.js';
import type { TestEngine } from './docker-engine.js';

/** What an image has beside busybox at `/bin/busybox`, also in folders that builds do not let it write, such as `/dev`. */
export interface ImageContents {
  /** Targets of links by path. */
  readonly links?: Readonly<Record<string, string>>;
  readonly folders?: readonly string[];
  readonly files?: readonly string[];
  /** Lines of a Dockerfile: VOLUME, WORKDIR. */
  readonly changes?: readonly string[];
}

let count = 0;

/** Imports such an image into the engine. @returns its reference */
export async function importLinked(
  { docker }: TestEngine,
  { links = {}, folders = [], files = [], changes = [] }: ImageContents,
): Promise<string> {
  const archive = pack();
  archive.entry({ name: 'bin/busybox', mode: 0o755 }, readFileSync(BUSYBOX));
  for (const path of folders) archive.entry({ name: path.slice(1), type: 'directory', mode: 0o755 });
  for (const path of files) archive.entry({ name: path.slice(1) }, 'of the image\n');
  for (const [path, linkname] of Object.entries(links))
    archive.entry({ name: path.slice(1), type: 'symlink', linkname });
  archive.finalize();
  const tag = String((count += 1));
  const report = await docker.importImage(Readable.from([await buffer(archive)]), {
    repo: 'linked',
    tag,
    changes: [...changes],
  });
  report.resume();
  await once(report, 'end');
  return `linked:${tag}`;
}

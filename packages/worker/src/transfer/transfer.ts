import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode, errorText } from '@longshore/common/errors';
import { Semaphore } from '@longshore/common/semaphore';
import { collect, type GetUploads } from '../artifacts/collect.js';
import { fetchAddresses } from '../artifacts/download.js';
import { fetchSources } from '../artifacts/fetch-sources.js';
import { FileCache } from '../artifacts/file-cache.js';
import type { Clock } from '../process/clock.js';
import { endedFiles, fillFilesRoot } from '../runtime/process/attempt-files.js';
import { RunFault } from '../runtime/runtime.js';
import { TRANSFER_FILES, unpackMessage, type TransferAnswer, type TransferLine } from './messages.js';

/** Between two looks for an answer, in milliseconds. */
const POLL_MS = 250;

/** How long a question may be unanswered, in milliseconds: a launcher is replaced in less. */
const ANSWER_MS = 3_600_000;

/** How long the end of the program is waited for while no launcher gives a sign, in milliseconds. */
export const SIGN_MS = 86_400_000;

export interface TransferParts {
  /** The folder of {@link TRANSFER_FILES}. */
  readonly folder: string;
  /** Below which the paths of the run are. */
  readonly root: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly say: (line: TransferLine) => void;
}

/**
 * Fetches the files of a run to their paths, and makes the folders for what it gives.
 * @param staging folder for what is on its way
 * @throws RunFault when they can be nowhere
 */
export async function transferIn(parts: TransferParts, staging: string, signal: AbortSignal): Promise<void> {
  const read = async () =>
    unpackMessage('sources', await readFile(join(parts.folder, TRANSFER_FILES.sources)));
  const { in: sources, folders, networks } = await read();
  // A launcher writes fresh URLs long before the old ones expire.
  const getSources = async () => (await read()).in;
  const files = { cache: new FileCache(staging, 0), addresses: fetchAddresses(networks) };
  const fetched = await fetchSources(sources, { ...parts, ...files, getSources }, logOf(parts), signal);
  try {
    await fillFilesRoot(parts.root, { fetched: fetched.sources, folders });
  } finally {
    await fetched.release();
  }
}

/** Waits for the end of the program, and sends what it has left. Says how that ended. */
export async function transferOut(parts: TransferParts, signal: AbortSignal): Promise<void> {
  const { folder, root, say } = parts;
  const { out } = unpackMessage('targets', await readFile(join(folder, TRANSFER_FILES.targets)));
  const answers = new Answers(parts, signal);
  try {
    const { hasSucceeded } = await answers.untilEnded();
    const collecting = { ...parts, getUploads: answers.ask, log: logOf(parts) };
    const { stored, missing } = await collect(
      out,
      hasSucceeded,
      endedFiles(root, [], true),
      collecting,
      signal,
    );
    for (const artifact of stored) say({ kind: 'stored', artifact });
    say({ kind: 'end', missing });
  } catch (error) {
    signal.throwIfAborted();
    const message = errorText(error) || errorCode(error);
    say({ kind: 'fault', isRun: error instanceof RunFault, message });
  }
}

function logOf({ clock, say }: TransferParts) {
  return { clock, note: (text: string) => say({ kind: 'note', text }) };
}

/** What the launcher answers in a file, one question after the other. */
class Answers {
  private readonly turns = new Semaphore(1);
  private asked = 0;

  constructor(
    private readonly parts: TransferParts,
    private readonly signal: AbortSignal,
  ) {}

  readonly ask: GetUploads = (request) =>
    this.turns.run(async () => {
      this.asked += 1;
      const id = this.asked;
      this.parts.say({ kind: 'ask', id, request });
      const { uploads } = await this.until((answer) => answer.id >= id, ANSWER_MS, TRANSFER_FILES.answer);
      return uploads;
    });

  /** A launcher renews the sources while it follows the run. */
  untilEnded(): Promise<TransferAnswer> {
    return this.until(() => true, SIGN_MS, TRANSFER_FILES.sources);
  }

  /** @param limitMs for which the file that shows that a launcher is there may stay as it is */
  private async until(
    isIt: (answer: TransferAnswer) => boolean,
    limitMs: number,
    sign: string,
  ): Promise<TransferAnswer> {
    const { clock } = this.parts;
    let last: Buffer | null = null;
    let sinceMs = clock.nowMs();
    for (;;) {
      const content = await this.read(TRANSFER_FILES.answer);
      const answer = content && unpackMessage('answer', content);
      if (answer?.isOver === true) throw new Error('the launcher takes no more questions');
      if (answer !== null && isIt(answer)) return answer;
      const seen = await this.read(sign);
      if (last === null || seen?.equals(last) !== true) sinceMs = clock.nowMs();
      last = seen;
      if (clock.nowMs() - sinceMs >= limitMs)
        throw new Error(`no launcher has answered for ${limitMs / 3_600_000} hours`);
      await clock.sleep(POLL_MS, this.signal);
      this.signal.throwIfAborted();
    }
  }

  private async read(name: string): Promise<Buffer | null> {
    try {
      return await readFile(join(this.parts.folder, name));
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return null;
      throw error;
    }
  }
}

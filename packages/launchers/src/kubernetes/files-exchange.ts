import { Backoff } from '@longshore/common/backoff';
import type { Collected, GetUploads } from '@longshore/worker/artifacts/collect';
import { WORKER_PREFIX } from '@longshore/worker/logs/run-log';
import { EngineFault, RunFault, type LogLine } from '@longshore/worker/runtime/runtime';
import type { StoredArtifact } from '@longshore/worker/service-api/run-artifacts';
import {
  packMessage,
  parseLine,
  TRANSFER_FILES,
  unpackMessage,
  type TransferAnswer,
  type TransferLine,
} from '@longshore/worker/transfer/messages';
import type { JobKey } from '../launcher/engine.js';
import { ApiError, orNull } from './api/kubernetes-api.js';
import type { Secret } from './api/resources.js';
import type { RemovalParts } from './job-lifecycle.js';
import { ANSWER_ANNOTATION, filesSecretName } from './manifest/names.js';
import { encodedData } from './manifest/secrets.js';

const RETRY = { firstMs: 250, maxMs: 10_000 };

/** What is known of an attempt whose program has ended. */
export interface EndedProgram extends JobKey {
  readonly podName: string;
  readonly hasSucceeded: boolean;
  /** Whether the container that stores the files answers no more. */
  readonly isOver: () => boolean;
}

/** The lines of a helper that are for people, as the worker writes its own into the log of a run. */
export async function* notesIn(lines: AsyncIterable<LogLine>): AsyncGenerator<LogLine, void, undefined> {
  for await (const line of saidIn(lines))
    if (line.kind === 'note') yield { stream: 'stderr', text: `${WORKER_PREFIX} ${line.text}` };
}

/**
 * Tells the container that stores the files of a run that the program has ended, and answers its questions.
 * @param lines its log, from the beginning
 * @throws RunFault when the files cannot be stored
 * @throws Error when the store is away, or the container is gone
 */
export async function exchangeFiles(
  parts: Pick<RemovalParts, 'api' | 'paths' | 'clock'>,
  program: EndedProgram,
  lines: AsyncIterable<LogLine>,
  getUploads: GetUploads,
  signal: AbortSignal,
): Promise<Collected> {
  const { hasSucceeded, isOver } = program;
  const answers = new AnswerFile(parts, program, signal);
  const stored: StoredArtifact[] = [];
  let answered = isOver() ? Infinity : await answers.newestId();
  const answer = async (id: number, uploads: TransferAnswer['uploads'], isLast = false): Promise<void> => {
    await answers.write({ hasSucceeded, id, uploads, isOver: isLast });
    answered = id;
  };
  if (answered < 0) await answer(0, {});
  for await (const line of saidIn(lines)) {
    switch (line.kind) {
      case 'ask':
        if (line.id <= answered || isOver()) break;
        try {
          await answer(line.id, await getUploads(line.request));
        } catch (error) {
          signal.throwIfAborted();
          await answer(line.id, {}, true);
          throw error;
        }
        break;
      case 'stored':
        stored.push(line.artifact);
        break;
      case 'end':
        return { stored, missing: line.missing };
      case 'fault':
        throw line.isRun ? new RunFault(line.message) : new Error(line.message);
      case 'note':
        break;
    }
  }
  throw new EngineFault('Kubernetes has lost what the run has left: the log about it is not complete');
}

/** What a helper says. Long lines come in parts. */
async function* saidIn(lines: AsyncIterable<LogLine>): AsyncGenerator<TransferLine, void, undefined> {
  let text = '';
  for await (const line of lines) {
    text += line.text;
    if (line.part === 'start' || line.part === 'rest') continue;
    const said = parseLine(text);
    text = '';
    if (said !== null) yield said;
  }
}

/** The part of a Secret from which a container reads answers. */
class AnswerFile {
  constructor(
    private readonly parts: Pick<RemovalParts, 'api' | 'paths' | 'clock'>,
    private readonly program: EndedProgram,
    private readonly signal: AbortSignal,
  ) {}

  /** -1: there is no answer yet. */
  async newestId(): Promise<number> {
    const { api, paths } = this.parts;
    const fieldSelector = `metadata.name=${filesSecretName(this.program)}`;
    const { items } = await this.repeated(() => api.list<Secret>(paths.secrets(), { fieldSelector }));
    const content = items[0]?.data?.[TRANSFER_FILES.answer];
    return content === undefined ? -1 : unpackMessage('answer', Buffer.from(content, 'base64')).id;
  }

  /** The sources have been fetched: their URLs would only take space. */
  async write(answer: TransferAnswer): Promise<void> {
    const { api, paths } = this.parts;
    const { podName } = this.program;
    const data = {
      [TRANSFER_FILES.sources]: null,
      ...encodedData({ [TRANSFER_FILES.answer]: packMessage(answer) }),
    };
    await this.repeated(() => api.merge(paths.secrets(filesSecretName(this.program)), { data }));
    // Without it, the node would look for the change within a minute.
    const annotations = { [ANSWER_ANNOTATION]: String(answer.id) };
    await this.repeated(() => orNull(api.merge(paths.pods(podName), { metadata: { annotations } })));
  }

  /** @throws EngineFault when the API server refuses the request */
  private async repeated<T>(request: () => Promise<T>): Promise<T> {
    const backoff = new Backoff(RETRY, Math.random);
    for (;;) {
      this.signal.throwIfAborted();
      try {
        return await request();
      } catch (error) {
        this.signal.throwIfAborted();
        const isFinal = error instanceof ApiError && error.status < 500 && error.status !== 429;
        if (isFinal)
          throw new EngineFault(`Kubernetes could not take where the files of the run go: ${error.message}`);
      }
      await this.parts.clock.sleep(backoff.nextMs(), this.signal);
    }
  }
}

import { Semaphore } from '@longshore/common/semaphore';
import { jsonText, lazyObject, stringifyJson } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { parseOutputs, refusedOutputs } from '../runtime/outputs.js';
import type { MaskedPlace, SecretMask } from '../secrets/secret-mask.js';
import { artifactsPayload, type StoredArtifact } from '../service-api/run-artifacts.js';
import type { RunFault } from '../runtime/runtime.js';
import type { RunEvent } from '../service-api/service-api.js';
import type { ServiceTerms } from '../worker-context.js';
import { clipMessage } from './failure-message.js';
import type { CompletedOutcome, OutputChange } from './outcome.js';

/** Parses and masks the output files of a worker's runs, one at a time: each may take many times its size in memory. */
export class RunOutputs {
  private readonly turns = new Semaphore(1);

  constructor(private readonly terms: Readonly<Pick<ServiceTerms, 'maxBodyBytes'>>) {}

  /**
   * The outcome with the outputs of an output file, without values of secrets. A file that the service would refuse is kept as an
   * artifact; where that cannot be, it is neither parsed nor masked.
   * @param bytes null: there is no file
   * @throws RunFault when it cannot be used
   * @throws Error when the store is away
   */
  async read(
    bytes: Buffer | null,
    mask: SecretMask,
    { artifacts, keep }: LargeOutputs = NOTHING_BESIDE,
  ): Promise<CompletedOutcome> {
    const stored = artifacts.length === 0 ? {} : { artifacts };
    if (bytes === null) return { ...NO_OUTPUTS, ...stored };
    const problem = this.sizeProblem(bytes, artifacts);
    const store = problem === null ? null : await keep();
    if (problem !== null && store === null) throw problem;
    const read = await this.turns.run(async () => {
      const parsed = parseOutputs(bytes);
      if (parsed === undefined) return null;
      // An await of the object itself would ask it for `then`, and so parse it.
      const { text, places } = await mask.jsonText(jsonText(parsed.outputs));
      return { text, change: changeOf(places, parsed.replaced) };
    });
    if (read === null) return { ...NO_OUTPUTS, ...stored };
    const { text, change } = read;
    if (store === null) return { kind: 'completed', outputs: lazyObject(text), change, ...stored };
    const kept = await store(Buffer.from(text));
    return { kind: 'completed', outputs: { $artifact: kept.name }, change, artifacts: [...artifacts, kept] };
  }

  private sizeProblem(bytes: Buffer, artifacts: readonly StoredArtifact[]): RunFault | null {
    const limit = this.terms.maxBodyBytes;
    if (limit === null) return null;
    const beside = artifacts.length === 0 ? 0 : Buffer.byteLength(stringifyJson(artifactsPayload(artifacts)));
    const most = Math.max(0, limit - EVENT_BYTES - beside);
    if (bytes.length <= most) return null;
    const size = compactLength(bytes);
    return size <= most
      ? null
      : refusedOutputs(`it has ${size} bytes without white space; the service takes at most ${most} bytes`);
  }
}

/** The artifact that has outputs which the service does not take. */
export const LARGE_OUTPUTS = 'outputs.json';

/** What goes beside, or in the place of, outputs. */
export interface LargeOutputs {
  /** Stored already, and reported in the same event. */
  readonly artifacts: readonly StoredArtifact[];
  /** Asks for a place for outputs that are too large. @returns what stores them; null: there is no place */
  readonly keep: () => Promise<((text: Buffer) => Promise<StoredArtifact>) | null>;
}

const NOTHING_BESIDE: LargeOutputs = { artifacts: [], keep: async () => null };

const NO_OUTPUTS: CompletedOutcome = { kind: 'completed', outputs: undefined, change: null };

function changeOf(places: readonly MaskedPlace[], replaced: number): OutputChange | null {
  const changes = places.map(({ path, isKey, names }) => {
    const what =
      names.length === 0
        ? 'a secret is'
        : names.length === 1
          ? `the secret of ${names.join()} is`
          : `the secrets of ${names.join(', ')} are`;
    const where = path === '' ? 'of the outputs' : isKey ? `of ${path}` : path;
    return `${what} masked in ${isKey ? `a key ${where}` : where}`;
  });
  if (replaced > 0)
    changes.push(
      `${replaced} ${replaced === 1 ? 'character' : 'characters'} that cannot be stored became U+FFFD`,
    );
  if (changes.length === 0) return null;
  const masked = places.map(({ path, isKey, names }) => ({ path, key: isKey, secrets: [...names] }));
  return { text: `The outputs were changed: ${changes.join('; ')}`, details: { masked, replaced } };
}

/** The event that reports the success of a run. */
export function completedEvent(
  outputs: JsonObject | undefined,
  change: OutputChange | null = null,
): RunEvent {
  const msg = 'The container ended with exit code 0';
  const payload: JsonObject = outputs === undefined ? {} : { outputs };
  if (change === null) return { type: 'COMPLETED', msg, payload };
  const { text, details } = change;
  return {
    type: 'COMPLETED',
    msg: clipMessage(`${msg}. ${text}`),
    payload: { ...payload, outputs_changed: details },
  };
}

/** Bytes of this event around the outputs. */
const EVENT_BYTES = Buffer.byteLength(stringifyJson(completedEvent({}))) - '{}'.length;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Length of a JSON text without the white space between its tokens, in bytes. */
function compactLength(bytes: Buffer): number {
  let length = 0;
  let isInString = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = Number(bytes[at]);
    if (isInString && byte === BACKSLASH) {
      length += 2;
      at += 1;
      continue;
    }
    if (byte === QUOTE) isInString = !isInString;
    if (isInString || byte > 0x20) length += 1;
  }
  return length;
}

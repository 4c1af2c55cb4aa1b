import { composeJson, jsonText, lazyObject, memberTexts } from '@longshore/common/json/json-text';
import type { JsonObject, JsonValue } from '@longshore/common/json/json-value';
import { REPORT } from '../../runs/files/reported-files.js';
import type { RunCommand } from '../../runs/machine/run-command.js';
import type { RunEvent } from '../../runs/machine/run-event.js';
import { replaceAddresses } from '../../runs/options/artifact-references.js';
import type { FileStore } from '../stores/file-store.js';
import { ownerOf } from './object-keys.js';

/** What may have addresses in a text. */
const WORD = /[^\s"'<>]+/g;
/** How an address begins, also in JSON, which may have backslashes before slashes. */
const SCHEME = /https?:(?:\\*\/){2}/gi;
const SLASH = /\\+\//g;
/** A text in JSON. */
const TEXT = /"(?:[^"\\]|\\.)*"/g;

/** Takes signatures of addresses of stores out of what is recorded of a run. */
export class Concealment {
  /** @param main that of the service @param others those by name */
  constructor(
    private readonly main: FileStore,
    private readonly others: readonly FileStore[],
  ) {}

  command(runId: string, command: RunCommand): RunCommand {
    if (command.type === 'patch')
      return command.outputs === undefined
        ? command
        : { ...command, outputs: this.#outputs(runId, command.outputs) };
    return command.type === 'event' ? { ...command, event: this.#event(runId, command.event) } : command;
  }

  #event(runId: string, event: RunEvent): RunEvent {
    const { msg, effect } = event;
    const payload = REPORT in event.payload ? withoutReport(event.payload) : event.payload;
    const shownMsg = typeof msg === 'string' ? this.text(msg) : msg;
    if (effect.kind === 'COMPLETED') {
      const outputs = effect.outputs && this.#outputs(runId, effect.outputs);
      return {
        ...event,
        msg: shownMsg,
        payload: this.#outputs(runId, payload),
        effect: { ...effect, outputs },
      };
    }
    const shown = { ...event, msg: shownMsg, payload: this.#maskAll(payload) };
    if (effect.kind !== 'FAILED' || effect.errorMessage === null) return shown;
    return { ...shown, effect: { ...effect, errorMessage: this.text(effect.errorMessage) } };
  }

  #outputs(runId: string, outputs: JsonObject): JsonObject {
    return this.#maskAll(replaceAddresses(outputs, (address) => this.#referenceTo(address, runId)));
  }

  /** What stands for an address of an object of the service's own store. */
  #referenceTo(address: string, runId: string): JsonValue | undefined {
    const key = URL.canParse(address) ? this.main.keyOf(new URL(address)) : undefined;
    const owner = key === undefined ? undefined : ownerOf(key);
    if (owner === undefined) return undefined;
    if (owner.kind === 'file') return { $artifact: { file: owner.id } };
    const { runId: run, name } = owner;
    return { $artifact: run === runId ? name : { run, name } };
  }

  #maskAll(value: JsonObject): JsonObject {
    const text = jsonText(value);
    const masked = text.replace(TEXT, (token) => {
      const given: unknown = /http|\\/i.test(token) ? JSON.parse(token) : undefined;
      const shown = typeof given === 'string' ? this.text(given) : given;
      return shown === given ? token : JSON.stringify(shown);
    });
    return masked === text ? value : lazyObject(masked);
  }

  /** A text without queries of our addresses. */
  text(text: string): string {
    return text.includes('?') ? text.replace(WORD, (word) => this.#maskWord(word)) : text;
  }

  /** Without the query of the first of our addresses and all behind it, but for the backslashes that belong to a quotation mark. */
  #maskWord(word: string): string {
    let end = 0;
    for (const part of word.split('?').slice(0, -1)) {
      end += part.length + 1;
      const start = [...part.matchAll(SCHEME)].at(-1)?.index;
      if (start === undefined || !this.#isOurs(part.slice(start))) continue;
      let last = word.length;
      while (word[last - 1] === '\\') last -= 1;
      return `${word.slice(0, end)}***${word.slice(last)}`;
    }
    return word;
  }

  /** @param text an address without its query */
  #isOurs(text: string): boolean {
    const address = text.replaceAll(SLASH, '/');
    if (!URL.canParse(address)) return false;
    const url = new URL(address);
    return [this.main, ...this.others].some((store) => store.keyOf(url) !== undefined);
  }
}

function withoutReport(payload: JsonObject): JsonObject {
  return composeJson([...memberTexts(payload)].filter(([name]) => name !== REPORT));
}

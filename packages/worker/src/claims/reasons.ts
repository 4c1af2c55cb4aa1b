import { oneLine } from '@longshore/common/shown-text';

/** Code points of a message; the service takes 500 UTF-16 units. */
const MAX_LENGTH = 250;

/** Reasons that parts of the worker set and clear, each once: the newest message counts. */
export class Reasons<K extends string> {
  private readonly messages = new Map<K, string>();

  /** @param onChange called when a reason or its message has changed */
  constructor(private readonly onChange: () => void) {}

  get isEmpty(): boolean {
    return this.messages.size === 0;
  }

  has(key: K): boolean {
    return this.messages.has(key);
  }

  /** @param message one line for people, without secrets */
  set(key: K, message: string): void {
    const clipped = [...oneLine(message)].slice(0, MAX_LENGTH).join('');
    if (this.messages.get(key) === clipped) return;
    this.messages.set(key, clipped);
    this.onChange();
  }

  clear(...keys: readonly K[]): void {
    const cleared = keys.filter((key) => this.messages.delete(key));
    if (cleared.length > 0) this.onChange();
  }

  protected entries(): [K, string][] {
    return [...this.messages];
  }
}

/** A process that lived this long was no quick death. */
const STEADY_MS = 30_000;

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;

/**
 * How long to wait before a server process that ended is replaced: not at all after a life of its own, and longer and
 * longer, up to 15 s, when one replacement after the other dies quickly.
 */
export class ReplacementPauses {
  #quickDeaths = 0;

  /** @param random spreads the pauses over [0, 1), so that processes that die together do not come back together */
  constructor(private readonly random: () => number = Math.random) {}

  /**
   * The pause before the next replacement, in milliseconds.
   * @param livedMs from the fork of the process that ended to its end
   */
  next(livedMs: number): number {
    if (livedMs >= STEADY_MS) this.#quickDeaths = 0;
    const before = this.#quickDeaths;
    this.#quickDeaths += 1;
    if (before === 0) return 0;
    const longest = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(before - 1, 10), LONGEST_PAUSE_MS);
    return Math.round(longest * (0.5 + this.random() / 2));
  }
}

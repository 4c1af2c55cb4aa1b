import type { Stage } from './stage.js';

/** One thing that a worker must do right. */
export interface Scenario {
  /** Kebab-case; what `--only` names. */
  readonly name: string;
  /** What a worker that passes has shown. */
  readonly promise: string;
  /** @throws RuleBroken when the worker breaks a rule */
  readonly play: (stage: Stage) => Promise<void>;
}

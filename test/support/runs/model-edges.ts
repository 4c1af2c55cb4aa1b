import assert from 'node:assert/strict';
import { whyBroken } from '../../../src/runs/journal/dependents.js';
import type { RunCommand } from '../../../src/runs/machine/run-command.js';
import { HELD, isHeld, type Need } from '../../../src/runs/machine/run.js';
import { isTerminal, type RunState } from '../../../src/runs/machine/run-state.js';
import type { ModelRun } from './run-model.js';
import type { RunSteps } from './run-steps.js';

interface Edge {
  readonly child: ModelRun;
  readonly parent: ModelRun;
  readonly need: Need;
  /** Null: the parent has not ended since the child was made, or had not when it was. */
  outcome: 'met' | 'broken' | null;
}

/** A run that has ended. */
interface End {
  readonly parent: ModelRun;
  /** Whether those are opened again that an earlier end has cancelled. */
  readonly reopens: boolean;
}

/** What runs wait for, by the rules of `depends_on`, written down a second time: one end after the other, without any race. */
export class ModelEdges {
  readonly #edges: Edge[] = [];

  /** @param untilTold waits until those that wait have been told of all ends @param seen gets what became of runs */
  constructor(
    private readonly steps: RunSteps,
    private readonly untilTold: () => Promise<unknown>,
    private readonly seen: Set<string>,
  ) {}

  /** Runs whose end has cancelled others. */
  get breaking(): readonly ModelRun[] {
    return this.#edges.flatMap(({ parent, need, outcome }) =>
      outcome === 'broken' && need !== 'failed' ? [parent] : [],
    );
  }

  /** A run is made that waits for others. */
  add(child: ModelRun, parents: readonly Pick<Edge, 'parent' | 'need'>[]): void {
    const given = new Map(parents.map((one) => [`${one.parent.run.id} ${one.need}`, one]));
    const own = [...given.values()].map(({ parent, need }) => ({
      child,
      parent,
      need,
      outcome: outcomeOf(parent.run.state, need),
    }));
    this.#edges.push(...own);
    const waitsFor = own.filter(({ outcome }) => outcome === null).length;
    const broken = own.find(({ outcome }) => outcome === 'broken');
    if (waitsFor === 0 && !broken) return;
    child.run = { ...child.run, notBefore: HELD, waitsFor };
    if (broken) this.#break(child, broken.parent, child.run.createdAt);
    else this.seen.add('held');
  }

  /** What the end of a run does to those that wait for it, and to those that wait for them; none if the run has not ended. */
  async follow(target: ModelRun, before: RunState, { type }: RunCommand): Promise<void> {
    const { state, reopens } = target.run;
    if (state === before || !isTerminal(state)) return;
    const isSetRight = type === 'patch' && isTerminal(before);
    const ends: End[] = [
      { parent: target, reopens: state === 'COMPLETED' && (isSetRight || reopens === true) },
    ];
    if (!this.#edges.some(({ parent }) => parent === target)) return;
    await this.untilTold();
    const changed = new Set<ModelRun>();
    for (const end of ends) {
      const told = this.#edges.filter((edge) => this.#decide(edge, end));
      for (const child of new Set(told.map((edge) => edge.child))) {
        if (await this.#tell(child, told, end)) ends.push({ parent: child, reopens: false });
        changed.add(child);
      }
    }
    for (const child of changed) await child.compare(this.steps.send);
  }

  /** Sets the outcome of a dependency on a run that has ended, unless it has one. @returns whether it has done so */
  #decide(edge: Edge, { parent, reopens }: End): boolean {
    if (edge.parent !== parent) return false;
    const isMended = reopens && edge.outcome === 'broken' && edge.need !== 'failed';
    if (edge.outcome !== null && !isMended) return false;
    edge.outcome = outcomeOf(parent.run.state, edge.need);
    return true;
  }

  /** @returns whether that ends the child */
  async #tell(child: ModelRun, told: readonly Edge[], { reopens }: End): Promise<boolean> {
    const own = this.#edges.filter((edge) => edge.child === child);
    const news = told.filter((edge) => edge.child === child);
    const { id, state, cause } = child.run;
    const shown = await this.steps.get(id);
    const now = new Date(shown.updatedAt);
    if (isHeld(child.run) && news.some(({ outcome }) => outcome === 'broken')) {
      const { run_id: named } = shown.events.at(-1).payload;
      const parent = own.find((edge) => edge.parent.run.id === named && edge.outcome !== 'met')?.parent;
      assert.ok(parent, `run ${id} is cancelled for run ${named}`);
      this.#break(child, parent, now);
      return true;
    }
    if (isHeld(child.run)) {
      const isReady = child.run.waitsFor === news.length;
      // What still waits shows no change.
      child.apply({ type: 'resolve', met: news.length }, isReady ? now : child.run.updatedAt);
      if (isReady) this.seen.add('ready');
      return false;
    }
    const isBroken = own.some(({ outcome }) => outcome === 'broken');
    if (!reopens || isBroken || state !== 'CANCELLED' || cause !== 'dependency') return false;
    const waitsFor = own.filter(({ outcome }) => outcome === null).length;
    child.apply({ type: 'reopen', waitsFor: waitsFor === 0 ? null : waitsFor }, now);
    this.seen.add('opened again');
    return false;
  }

  #break(child: ModelRun, parent: ModelRun, now: Date): void {
    const { id: parentId, state } = parent.run;
    const edge = this.#edges.find(
      (one) => one.child === child && one.parent === parent && outcomeOf(state, one.need) === 'broken',
    );
    const dependency = { parentId, isGroup: false, need: edge?.need ?? 'completed' };
    const broken = { parentId, isGroup: false, reason: whyBroken(dependency, state) };
    child.apply({ type: 'resolve', met: 0, broken }, now);
    this.seen.add('broken');
  }
}

function outcomeOf(state: RunState, need: Need): Edge['outcome'] {
  if (!isTerminal(state)) return null;
  return need === 'ended' || need === state.toLowerCase() ? 'met' : 'broken';
}

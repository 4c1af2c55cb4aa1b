import { Injectable } from '@nestjs/common';
import type { DataSource, EntityManager } from 'typeorm';
import { Log } from '../../common/logging/logger.js';
import { Pipeline } from '../../database/sql/pipeline.js';
import type { StatementTracer } from '../../database/sql/statement-tracer.js';
import { FeedTails } from '../../feed/cache/feed-tails.js';
import type { CommandOutcome } from '../group-commit/group-commit-queue.js';
import type { AdmittedRun } from '../queue/concurrency-keys.js';
import { RunViews } from '../storage/run-views.js';
import { ClaimAllocator } from './claim-allocator.js';
import { bytesOfGroup } from './claim-bytes.js';
import { GroupWriter } from './group-writer.js';
import { decidePending, type CommittedGroup, type PendingCommand, type Result } from './pending-command.js';
import { RunGroup } from './run-group.js';

/** Carries out a group of commands as one transaction with a fixed number of statements. */
@Injectable()
export class GroupCommitter {
  constructor(
    private readonly writer: GroupWriter,
    private readonly allocator: ClaimAllocator,
    private readonly views: RunViews,
    private readonly feeds: FeedTails,
    private readonly log: Log,
  ) {}

  /**
   * The state machine decides the commands in order; claims are served after the others, so they see the resulting queue.
   * @param announceFree whether to announce workers with free capacity
   * @throws errors of the database: then nothing is committed
   */
  async commit(
    source: DataSource,
    commands: readonly PendingCommand[],
    announceFree: boolean,
    tracer?: StatementTracer,
  ): Promise<CommittedGroup> {
    const work = async (manager: EntityManager, pipeline: Pipeline) => {
      const { keys, locked, now } = await this.writer.begin(manager, commands);
      const group = new RunGroup(now, locked);
      const outcomes = commands.map((pending) => decidePending(group, pending, keys));
      pipeline.also(this.writer.write(manager, group, keys.unused));
      const entered = await this.writer.writeRestricted(manager, group);
      const { assigned, admitted } = await this.#serveClaims(manager, commands, outcomes, group);
      const claimable = [...entered, ...admitted];
      pipeline.also(this.writer.announce(manager, group, assigned, claimable, announceFree));
      await this.#addViews(manager, commands, outcomes);
      const { feedEntries } = group;
      const appended = this.writer.appendToFeeds(manager, feedEntries);
      pipeline.also(appended);
      return { group, outcomes, feedEntries: feedEntries.length, appended };
    };
    const { epoch } = this.feeds;
    const { appended, ...committed } = await Pipeline.transaction(source, work, tracer);
    const heads = await appended;
    this.#addToCache(epoch, heads, committed.group);
    return heads.size === 0 ? { ...committed, feedEntries: 0 } : committed;
  }

  /** Never throws: the group is committed, so its commands must not be carried out again. */
  #addToCache(epoch: string | null, heads: ReadonlyMap<string, number>, group: RunGroup): void {
    try {
      this.feeds.append(epoch, heads, (topics) => group.feedEvents(topics));
    } catch (error) {
      this.log.error('committed events could not be added to the cache of feeds', { error });
      for (const topic of heads.keys()) this.feeds.forget(topic);
    }
  }

  /** Serves the claims of a group. @returns ids of the assigned runs, and runs that became claimable by their keys */
  async #serveClaims(
    manager: EntityManager,
    commands: readonly PendingCommand[],
    outcomes: CommandOutcome<Result>[],
    { now, countDelta }: RunGroup,
  ): Promise<{ readonly assigned: ReadonlySet<string>; readonly admitted: readonly AdmittedRun[] }> {
    const claims = commands.flatMap((pending, at) =>
      pending.kind === 'claim' ? [{ at, claim: pending.claim }] : [],
    );
    const assigned = new Set<string>();
    if (claims.length === 0) return { assigned, admitted: [] };
    const { outcomes: served, admitted } = await this.allocator.serve(
      manager,
      claims.map(({ claim }) => claim),
      now,
    );
    for (const [i, { at }] of claims.entries()) {
      const outcome = served[i];
      if (!outcome) continue;
      outcomes[at] = { value: outcome };
      for (const { run } of outcome.runs) assigned.add(run.id);
      if (outcome.kind === 'served') countDelta.move('PENDING', 'ASSIGNED', outcome.runs.length);
    }
    return { assigned, admitted };
  }

  /** Adds views of runs, up to a number of bytes, to the effects of replays and of changes that want one. */
  async #addViews(
    manager: EntityManager,
    commands: readonly PendingCommand[],
    outcomes: CommandOutcome<Result>[],
  ): Promise<void> {
    const wanted = outcomes.flatMap((outcome, at) => {
      const pending = commands[at];
      if (!('value' in outcome) || 'kind' in outcome.value || outcome.value.view) return [];
      if (pending?.kind === 'change' && !pending.wantsView) return [];
      const effect = outcome.value;
      return [{ at, effect, runId: 'run' in effect ? effect.run.id : effect.replayOf }];
    });
    if (wanted.length === 0) return;
    const ids = new Set(wanted.map(({ runId }) => runId));
    const views = await this.views.read(manager, [...ids], bytesOfGroup(this.views.maxBytes));
    for (const { at, effect, runId } of wanted) {
      outcomes[at] = { value: { ...effect, view: views.get(runId) } };
    }
  }
}

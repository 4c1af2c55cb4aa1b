import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Counter, Registry } from 'prom-client';
import type { Subscription } from 'rxjs';
import { ENDED_GROUP_STATES } from '../database/entities/group.entity.js';
import { CommittedGroups } from '../runs/journal/committed-groups.js';
import { endsToldBy } from './ends/dependency.repository.js';

const OUTCOMES = ['met', 'broken'] as const;

/** Counts of ends of groups, and of ends that runs and arrays waited for. */
@Injectable()
export class GroupMetrics implements OnModuleInit, OnModuleDestroy {
  readonly #ended: Counter<'state'>;
  readonly #dependencies: Counter<'outcome'>;
  #subscription: Subscription | undefined;

  constructor(
    registry: Registry,
    private readonly committed: CommittedGroups,
  ) {
    const registers = [registry];
    this.#ended = new Counter({
      name: 'longshore_groups_ended_total',
      help: 'Groups that this process ended with their last member, by state',
      labelNames: ['state'],
      registers,
    });
    this.#dependencies = new Counter({
      name: 'longshore_dependencies_resolved_total',
      help: 'Ends that this process told runs and arrays that waited for them; broken: not the end that was needed',
      labelNames: ['outcome'],
      registers,
    });
    for (const state of ENDED_GROUP_STATES) this.#ended.inc({ state }, 0);
    for (const outcome of OUTCOMES) this.#dependencies.inc({ outcome }, 0);
  }

  onModuleInit(): void {
    this.#subscription = this.committed.subscribe(({ groupWork, changes: { batches } }) => {
      for (const state of groupWork.ended) this.#ended.inc({ state });
      for (const { outcome } of endsToldBy(batches)) this.#dependencies.inc({ outcome });
    });
  }

  onModuleDestroy(): void {
    this.#subscription?.unsubscribe();
  }
}

import { Module, type OnModuleInit } from '@nestjs/common';
import { GroupCommitter } from '../runs/journal/commit-group.js';
import { HealthModule } from '../health/health.module.js';
import { RunTimeoutsJob } from '../runs/run-timeouts.job.js';
import { RunListReader } from '../runs/reading/run-list.reader.js';
import { RunsModule } from '../runs/runs.module.js';
import { RunsService } from '../runs/runs.service.js';
import { WorkersModule } from '../workers/workers.module.js';
import { CapacityController } from './capacity/capacity.controller.js';
import { CapacityService } from './capacity/capacity.service.js';
import { DemandReader } from './capacity/demand.reader.js';
import { PendingRunsMetrics } from './capacity/pending-runs.metrics.js';
import { CandidateSelector } from './candidate-selector.js';
import { ClaimAllocator } from './claim-allocator.js';
import { ClaimInstrumentation } from './claim-instrumentation.js';
import { ClaimService } from './claim.service.js';
import { ClaimQuota, ClaimsController } from './claims.controller.js';
import { OverviewController } from './overview/overview.controller.js';
import { OverviewService } from './overview/overview.service.js';
import { ListReasons } from './reasons/list-reasons.js';
import { ExplainController } from './explain/explain.controller.js';
import { ExplainService } from './explain/explain.service.js';
import { WaitingClaims } from './waiting-claims.js';
import { WorkerReports } from './worker-reports.js';

/** Claims: which runs a worker gets, the waiting for them, why a run waits, and what workers are missing. */
@Module({
  imports: [RunsModule, WorkersModule, HealthModule],
  controllers: [ClaimsController, ExplainController, CapacityController, OverviewController],
  providers: [
    CandidateSelector,
    ClaimAllocator,
    WaitingClaims,
    WorkerReports,
    ClaimInstrumentation,
    ClaimQuota,
    ClaimService,
    ExplainService,
    CapacityService,
    DemandReader,
    PendingRunsMetrics,
    OverviewService,
    ListReasons,
  ],
})
export class ClaimsModule implements OnModuleInit {
  constructor(
    private readonly committer: GroupCommitter,
    private readonly allocator: ClaimAllocator,
    private readonly timeouts: RunTimeoutsJob,
    private readonly runs: RunsService,
    private readonly explanations: ExplainService,
    private readonly lists: RunListReader,
    private readonly reasons: ListReasons,
  ) {}

  onModuleInit(): void {
    this.committer.serveClaimsBy(this.allocator);
    this.runs.countAbleWorkersBy((run) => this.explanations.countAble(run));
    this.timeouts.explainBy(this.explanations);
    this.lists.explainBy(this.reasons);
  }
}

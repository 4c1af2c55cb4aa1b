import type { Mutant } from './worker-mutants.js';

/** Mistakes with a service of another version. */
export const UPGRADE_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'a heartbeat that an older service refuses is repeated as it is',
    scenario: 'older-service',
    says: /in vain until the worker has sent a heartbeat that the service takes/,
    change: ['            plain = True', '            pass'],
  },
  {
    mistake: 'an older service is sent a query that it refuses',
    scenario: 'older-service',
    says: /should be COMPLETED; it is FAILED/,
    change: [
      'until_known("GET", self.path, goes_on',
      'until_known("GET", self.path + "?include_events=false", goes_on',
    ],
  },
  {
    mistake: 'capabilities are not announced to an upgraded service',
    scenario: 'rolled-back',
    says: /in vain until heartbeats announce what they did before/,
    change: ['            plain = plain and not tells\n', ''],
  },
];

/** What the example worker has beyond interface.md and decisions.md, and what stands there in a worker written to these. */
export const OLDER_WORKER: readonly Mutant['change'][] = [
  ['CAPABILITIES = ["env", "command", "secrets"]', 'CAPABILITIES = []'],
  ['UNSUPPORTED = {', 'UNSUPPORTED = {"env", "command", "args", "secrets", '],
  ['plain = False  #', 'plain = True  #'],
  ['tells, lost = "lost_ops" in answer, answer.get("lost_ops", []) if named else []', 'lost = []'],
];

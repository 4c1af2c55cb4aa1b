import type { Mutant } from './worker-mutants.js';

/** Mistakes about proxies, odd servers and slow lines. */
export const PROXY_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'one 401 ends it',
    scenario: 'odd-refusals',
    says: /ended because of one 40[13]/,
    change: [
      '        if doubting.acquire(blocking=False):\n',
      '        os._exit(1)\n        if doubting.acquire(blocking=False):\n',
    ],
  },
  {
    mistake: 'a page of a proxy counts as a refusal',
    scenario: 'foreign-answers',
    says: /timeline should be|should be COMPLETED|should be the last/,
    change: [
      '    answer = json.loads(text)\n    if not isinstance(answer, dict):',
      '    if status >= 400:\n        return "HTTP error"\n    answer = json.loads(text)\n    if not isinstance(answer, dict):',
    ],
  },
  {
    mistake: 'an answer to a claim has a limit of the total time',
    scenario: 'slow-answer',
    says: /in vain until the run is COMPLETED|should be the last|should be COMPLETED|timeline should be/,
    change: [
      '        begin(connection)\n        connection.request(',
      '        begin(connection)\n        threading.Timer(limit, lambda: connection.sock and connection.sock.shutdown(2)).start()\n        connection.request(',
    ],
  },
  {
    mistake: 'heartbeats do not name the runs of an answer that is still arriving',
    scenario: 'slow-answer',
    says: /should be the last|should be COMPLETED|timeline should be/,
    change: ['for id in receiving]', 'for id in []]'],
  },
];

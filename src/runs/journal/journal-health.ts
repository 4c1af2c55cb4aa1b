import { Injectable } from '@nestjs/common';
import { HealthChecks } from '../../health/health-checks.js';
import { RunJournal } from './run-journal.js';

/** Tells health whether the journal takes commands: `ok`, `stuck` behind a commit, or `overloaded`. */
@Injectable()
export class JournalHealth {
  constructor(journal: RunJournal, checks: HealthChecks) {
    checks.register('journal', () => journal.state);
  }
}

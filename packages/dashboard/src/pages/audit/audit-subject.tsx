import { RunLink } from '../../components/values/named-links.js';
import type { AuditEntry } from './audit-view.js';

/** What was changed: a run with a link, or the id of something else. */
export function Subject({ entry: { run_id: runId, subject } }: { readonly entry: AuditEntry }) {
  if (runId !== null) return <RunLink id={runId} />;
  return (
    <div className="truncate" title={subject}>
      {subject}
    </div>
  );
}

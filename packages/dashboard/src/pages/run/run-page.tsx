import { Link, useParams } from 'wouter';
import { ApiError } from '../../api/api-error.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { ErrorState } from '../../components/feedback/error-state.js';
import { LiveDot, type Liveness } from '../../components/values/live-dot.js';
import { ProgressBar } from '../../components/values/progress-bar.js';
import { StateBadge } from '../../components/values/state-badge.js';
import { shortId } from '../../lib/format.js';
import { PageHeader } from '../../shell/page-header.js';
import { RunActions } from './run-actions.js';
import { RunDetails } from './run-details.js';
import styles from './run-page.module.css';
import { isEnded } from './run-view.js';
import { useEarlyTimeline, useRun } from './use-run.js';

/** One run: what it is, how it stands, what happened and what it printed. */
export default function RunPage() {
  const { id = '' } = useParams();
  return <OneRun key={id} id={id} />;
}

function OneRun({ id }: { readonly id: string }) {
  const { data: run, error, isError, refetch } = useRun(id);
  useEarlyTimeline(id);
  if (error instanceof ApiError && error.status === 404) return <Gone wasThere={run !== undefined} />;
  if (run === undefined) {
    return isError ? (
      <ErrorState error={error} onRetry={() => void refetch()} />
    ) : (
      <div aria-busy="true" className={styles.loading} />
    );
  }
  const ended = isEnded(run);
  const liveness: Liveness = isError ? 'waiting' : ended ? 'ended' : 'live';
  return (
    <>
      <PageHeader
        title={
          <span className={styles.title} title={run.name === null ? id : `${run.name}\n${id}`}>
            {run.name ?? 'Run'} <code>{shortId(id)}</code>
          </span>
        }
        note={
          <>
            <CopyButton what="run id" text={id} />
            <StateBadge state={run.state} />
            <LiveDot state={liveness} />
          </>
        }
        actions={<RunActions run={run} />}
      />
      <div className={styles.top}>
        <code className={styles.image} title={run.image}>
          {run.image}
        </code>
        <ProgressBar
          label="Progress of the run"
          percent={run.progress}
          tone={run.state === 'FAILED' ? 'bad' : run.state === 'COMPLETED' ? 'good' : 'info'}
        />
      </div>
      <RunDetails run={run} />
    </>
  );
}

function Gone({ wasThere }: { readonly wasThere: boolean }) {
  return (
    <EmptyState
      icon="runs"
      title={wasThere ? 'This run has been removed' : 'There is no such run'}
      action={<Link href="/runs">All runs</Link>}
    >
      {wasThere
        ? 'The run has been removed. The service removes ended runs, with their timeline and logs, after its retention time.'
        : 'The id is wrong, or the run was removed: the service removes ended runs after its retention time.'}
    </EmptyState>
  );
}

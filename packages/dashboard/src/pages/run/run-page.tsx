import type { ReactNode } from 'react';
import { Link, useParams } from 'wouter';
import { ApiError } from '../../api/answers.js';
import type { Run } from '../../api/use-api.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { Tabs } from '../../components/controls/tabs.js';
import { EmptyState, ErrorState } from '../../components/feedback/empty-state.js';
import { Badge, StateBadge } from '../../components/values/badge.js';
import { JsonTree } from '../../components/values/json-tree.js';
import { LiveDot, type Liveness } from '../../components/values/live-dot.js';
import { ProgressBar } from '../../components/values/progress-bar.js';
import { Download } from '../../files/file-links.js';
import { readFileRef } from '../../files/file-refs.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { formatCount, shortId } from '../../lib/format.js';
import { containerOf } from '../../run-form/run-fields.js';
import { PageHeader } from '../../shell/page-header.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { AttemptList } from './attempt-list.js';
import { LogPanel } from './log/log-panel.js';
import { RunActions } from './run-actions.js';
import runDataStyles from './run-data.module.css';
import { KeyHolders, RunFacts } from './run-facts.js';
import { RunFiles } from './run-files.js';
import styles from './run-page.module.css';
import { RunStanding } from './run-standing.js';
import { attemptEnds, isEnded } from './run-view.js';
import { TimelinePanel } from './timeline-panel.js';
import { useAttempts, useEarlyTimeline, useHasFiles, useRun, useTimeline } from './use-run.js';

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
  const { cause, exit_code: exitCode } = run.execution_summary;
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
            {cause !== undefined && (
              <Badge tone={run.state === 'FAILED' ? 'bad' : 'neutral'}>
                {cause}
                {exitCode !== undefined && `, exit code ${exitCode}`}
              </Badge>
            )}
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

const FILTERS = ['attempt', 'tab', 'search', 'type', 'order'] as const;
const TABS = ['log', 'timeline', 'data', 'files', 'container'] as const;

/** What is below the header of a run: how it stands, its facts, its attempts, and the log, timeline or data of one. */
function RunDetails({ run }: { readonly run: Run }) {
  const [filters, setFilters] = useUrlFilters(FILTERS);
  const { data: attempts } = useAttempts(run);
  const { data: events, error } = useTimeline(run);
  const asked = Number(filters.attempt);
  const hasAsked = Number.isInteger(asked) && asked >= 1 && asked <= run.current_attempt;
  const attempt = hasAsked ? asked : run.current_attempt;
  const hasFiles = useHasFiles(run);
  const tab = TABS.find((name) => name === filters.tab && (name !== 'files' || hasFiles)) ?? 'log';
  const chosen =
    attempt === run.current_attempt ? undefined : attempts?.find((one) => one.attempt === attempt);
  const shown = chosen ?? run;
  const container = containerOf(run);
  const show = (name: (typeof TABS)[number]): void => setFilters({ tab: name === 'log' ? '' : name });

  useShortcut('l', 'Show the log', () => show('log'));
  useShortcut('t', 'Show the timeline', () => show('timeline'));
  useShortcut('i', 'Show inputs and outputs', () => show('data'));
  return (
    <div className={styles.sections}>
      <RunStanding run={run} />
      <div className={styles.facts}>
        <RunFacts run={run} />
      </div>
      {run.concurrency !== null && !isEnded(run) && <KeyHolders run={run} concurrency={run.concurrency} />}
      <AttemptList
        run={run}
        attempts={attempts}
        chosen={attempt}
        onChoose={(value) =>
          setFilters({ attempt: value === run.current_attempt ? '' : String(value) }, { isNewPage: true })
        }
      />
      <div>
        <Tabs
          label="Parts of the run"
          value={tab}
          onChange={show}
          tabs={[
            { value: 'log', label: 'Log' },
            {
              value: 'timeline',
              label: events === undefined ? 'Timeline' : `Timeline (${formatCount(events.length)})`,
            },
            { value: 'data', label: 'Inputs and outputs' },
            ...(hasFiles ? [{ value: 'files' as const, label: 'Files' }] : []),
            ...(container === undefined ? [] : [{ value: 'container' as const, label: 'Container' }]),
          ]}
        >
          {tab === 'log' && (
            <LogPanel
              runId={run.id}
              attempt={attempt}
              isEnded={attempt < run.current_attempt || isEnded(run)}
              wasHandedOut={shown.execution_summary.worker_id !== undefined}
              search={filters.search}
              onSearch={(search) => setFilters({ search })}
            />
          )}
          {tab === 'timeline' && (
            <TimelinePanel
              events={events}
              error={error}
              ends={attemptEnds(attempts ?? [])}
              current={run.current_attempt}
              attempt={hasAsked ? attempt : undefined}
              type={filters.type}
              isNewestFirst={filters.order === 'desc'}
              onChange={setFilters}
            />
          )}
          {tab === 'container' && <JsonTree label="container" value={container ?? {}} maxHeight={560} />}
          {tab === 'files' && <RunFiles run={run} />}
          {tab === 'data' && <RunData runId={run.id} inputs={shown.inputs} outputs={shown.outputs} />}
        </Tabs>
      </div>
    </div>
  );
}

interface Props {
  readonly runId: string;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly outputs: Readonly<Record<string, unknown>>;
}

/** What a run was given and what it gave back. */
function RunData({ runId, inputs, outputs }: Props) {
  /** What a value stands for, where it is a file. */
  const linkOf = (value: unknown): ReactNode => {
    const ref = readFileRef(value, runId);
    if (ref === undefined) return null;
    const text = 'file' in ref ? 'file' : ref.name;
    return (
      <Download of={ref} label={text}>
        {text}
      </Download>
    );
  };
  return (
    <div className={runDataStyles.pair}>
      <section>
        <h3>Inputs</h3>
        <JsonTree label="inputs" value={inputs} maxHeight={560} linkOf={linkOf} />
      </section>
      <section>
        <h3>Outputs</h3>
        <JsonTree label="outputs" value={outputs} maxHeight={560} linkOf={linkOf} />
      </section>
    </div>
  );
}

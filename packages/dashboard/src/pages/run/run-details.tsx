import { JsonTree } from '../../components/values/json-tree.js';
import { Tabs } from '../../components/controls/tabs.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { formatCount } from '../../lib/format.js';
import { containerOf } from '../../run-form/options-of.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { AttemptList } from './attempt-list.js';
import { KeyHolders } from './key-holders.js';
import { LogPanel } from './log/log-panel.js';
import { RunData } from './run-data.js';
import { RunFacts } from './run-facts.js';
import styles from './run-page.module.css';
import { RunStanding } from './run-standing.js';
import { attemptEnds, isEnded, type Run } from './run-view.js';
import { TimelinePanel } from './timeline/timeline-panel.js';
import { useAttempts, useTimeline } from './use-run.js';

const FILTERS = ['attempt', 'tab', 'search', 'type', 'order'] as const;
const TABS = ['log', 'timeline', 'data', 'container'] as const;

/** What is below the header of a run: how it stands, its facts, its attempts, and the log, timeline or data of one. */
export function RunDetails({ run }: { readonly run: Run }) {
  const [filters, setFilters] = useUrlFilters(FILTERS);
  const { data: attempts } = useAttempts(run);
  const { data: events, error } = useTimeline(run);
  const asked = Number(filters.attempt);
  const hasAsked = Number.isInteger(asked) && asked >= 1 && asked <= run.current_attempt;
  const attempt = hasAsked ? asked : run.current_attempt;
  const tab = TABS.find((name) => name === filters.tab) ?? 'log';
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
          {tab === 'data' && <RunData inputs={shown.inputs} outputs={shown.outputs} />}
        </Tabs>
      </div>
    </div>
  );
}

import { useState } from 'react';
import { Link, useParams } from 'wouter';
import { unwrapPages } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { useLive } from '../../api/use-live.js';
import { ApiError } from '../../api/api-error.js';
import { Button } from '../../components/controls/button.js';
import { CopyButton } from '../../components/controls/copy-button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { ErrorState } from '../../components/feedback/error-state.js';
import { Field } from '../../components/controls/field.js';
import { Select } from '../../components/controls/inputs.js';
import { Tabs } from '../../components/controls/tabs.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { PageHeader } from '../../shell/page-header.js';
import { CompareVersions } from './compare-versions.js';
import { DefinitionDetails } from './definition-details.js';
import styles from './definition-page.module.css';
import { toBody, type Definition } from './definition-view.js';
import { EditDefinitionDialog } from './edit-definition-dialog.js';
import { StartRunForm } from './start-run-form.js';
import { VersionList } from './version-list.js';

const FILTERS = ['version', 'tab', 'base'] as const;
const TABS = [
  { value: 'details', label: 'Details' },
  { value: 'start', label: 'Start a run' },
  { value: 'compare', label: 'Compare' },
  { value: 'versions', label: 'Versions' },
] as const;
/** Versions that can be chosen; older ones are reached by the API only. */
const MOST_VERSIONS = 1000;
const EVERY_MS = 10_000;

/** One definition: what its versions say, what changed between two of them, and a form that starts a run. */
export default function DefinitionPage() {
  const { name = '' } = useParams();
  const api = useApi();
  const { data, error, refetch } = useLive({
    queryKey: ['definitions', 'versions', name],
    queryFn: ({ signal }) => {
      const path = { name };
      return unwrapPages(
        (cursor) => {
          const params = { path, query: { limit: MOST_VERSIONS, ...cursor } };
          return api.GET('/definitions/{name}/versions', { params, signal });
        },
        ({ version }) => version,
        MOST_VERSIONS,
      );
    },
    everyMs: EVERY_MS,
  });
  if (error instanceof ApiError && error.status === 404) {
    return (
      <EmptyState
        icon="definitions"
        title={`There is no definition ${name}`}
        action={<Link href="/definitions">All definitions</Link>}
      />
    );
  }
  if (data === undefined && error !== null) {
    return <ErrorState error={error} onRetry={() => void refetch()} />;
  }
  const [newest] = data ?? [];
  if (data === undefined || newest === undefined) return <PageHeader title={name} />;
  return <Loaded key={name} name={name} versions={data} newest={newest} />;
}

interface LoadedProps {
  readonly name: string;
  /** The newest first. */
  readonly versions: readonly Definition[];
  readonly newest: Definition;
}

function Loaded({ name, versions, newest }: LoadedProps) {
  const [filters, setFilters] = useUrlFilters(FILTERS);
  const [isEditing, setEditing] = useState(false);
  const tab = TABS.find(({ value }) => value === filters.tab)?.value ?? 'details';
  const chosen =
    filters.version === '' ? newest : versions.find(({ version }) => version === filters.version);
  const choose = (version: string): void =>
    setFilters({ version: version === newest.version ? '' : version }, { isNewPage: true });
  return (
    <>
      <PageHeader
        title={
          <span className={styles.title}>
            <Link href="/definitions" className={styles.parent}>
              Definitions
            </Link>
            <span aria-hidden="true" className="muted">
              /
            </span>
            {name}
            <CopyButton what="name" text={name} />
          </span>
        }
        note={
          <Field label="Version" isLabelHidden>
            {(control) => (
              <Select
                {...control}
                value={chosen?.version ?? ''}
                options={[
                  ...(chosen === undefined ? [['', 'Choose a version'] as const] : []),
                  ...versions.map(
                    ({ version }) =>
                      [version, version === newest.version ? `${version} (newest)` : version] as const,
                  ),
                ]}
                onChange={choose}
              />
            )}
          </Field>
        }
        actions={
          <div className={styles.actions}>
            <Link href={`/runs?op_definition=${encodeURIComponent(name)}`}>Runs</Link>
            <Button onClick={() => setEditing(true)}>New version</Button>
            {tab !== 'start' && (
              <Button kind="primary" onClick={() => setFilters({ tab: 'start' }, { isNewPage: true })}>
                Start a run
              </Button>
            )}
          </div>
        }
      />
      {chosen === undefined ? (
        <EmptyState
          icon="definitions"
          title={`There is no version ${filters.version}`}
          action={<Button onClick={() => choose(newest.version)}>Show the newest</Button>}
        />
      ) : (
        <Tabs
          label={`About ${name}`}
          tabs={TABS}
          value={tab}
          onChange={(value) => setFilters({ tab: value === 'details' ? '' : value })}
        >
          {tab === 'details' && <DefinitionDetails definition={chosen} />}
          {tab === 'start' && <StartRunForm key={chosen.version + chosen.updatedAt} definition={chosen} />}
          {tab === 'compare' && (
            <CompareVersions
              versions={versions}
              base={filters.base}
              chosen={chosen}
              onBase={(base) => setFilters({ base })}
              onChosen={choose}
            />
          )}
          {tab === 'versions' && (
            <VersionList versions={versions} isCut={versions.length === MOST_VERSIONS} />
          )}
        </Tabs>
      )}
      <EditDefinitionDialog
        isOpen={isEditing}
        onClose={() => setEditing(false)}
        title={`New version of ${name}`}
        start={toBody(chosen ?? newest)}
        known={versions.map(({ id, version }) => `${id}/${version}`)}
      />
    </>
  );
}

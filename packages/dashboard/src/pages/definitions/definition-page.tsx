import { useMemo, useState } from 'react';
import { Link, useParams } from 'wouter';
import { unwrapPages } from '../../api/answers.js';
import { useApi, useLive } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field, Select } from '../../components/controls/inputs.js';
import { Tabs } from '../../components/controls/tabs.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { DataTable, type Column } from '../../components/table/data-table.js';
import { ChangeList } from '../../components/values/change-list.js';
import { Line } from '../../components/values/facts.js';
import { Time } from '../../components/values/time.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { formatCount } from '../../lib/format.js';
import { ItemDescription, ItemPage, ItemTitle } from '../../shell/item-page.js';
import { PageHeader } from '../../shell/page-header.js';
import { changesBetween, DefinitionDetails, toBody, type Definition } from './definition-details.js';
import styles from './definition-page.module.css';
import definitionsPageStyles from './definitions-page.module.css';
import { EditDefinitionDialog } from './edit-definition-dialog.js';
import { StartRunForm } from './start-run-form.js';

const LIST = ['/definitions', 'Definitions'] as const;
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
  const result = useLive({
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
  return (
    <ItemPage list={LIST} name={name} kind="definition" icon="definitions" result={result}>
      {(versions) => {
        const [newest] = versions;
        if (newest === undefined) return <PageHeader title={name} />;
        return <Loaded key={name} name={name} versions={versions} newest={newest} />;
      }}
    </ItemPage>
  );
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
        title={<ItemTitle list={LIST} name={name} what="name" />}
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
      <ItemDescription text={chosen?.description ?? null} />
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
      {isEditing && (
        <EditDefinitionDialog
          onClose={() => setEditing(false)}
          title={`New version of ${name}`}
          start={toBody(chosen ?? newest)}
          known={versions.map(({ id, version }) => `${id}/${version}`)}
        />
      )}
    </>
  );
}

interface Props {
  /** The newest first. */
  readonly versions: readonly Definition[];
  /** The version to compare with; empty for the one before the chosen one. */
  readonly base: string;
  readonly chosen: Definition;
  readonly onBase: (version: string) => void;
  readonly onChosen: (version: string) => void;
}

/** What changed between two versions. */
function CompareVersions({ versions, base, chosen, onBase, onChosen }: Props) {
  const before = versions.find(({ version }) => version === base) ?? versionBefore(versions, chosen);
  const changes = useMemo(
    () => (before === undefined ? [] : changesBetween(before, chosen)),
    [before, chosen],
  );
  const options = versions.map(({ version }) => [version, version] as const);
  if (before === undefined) {
    return (
      <EmptyState icon="definitions" title="Only one version">
        Once there is another one, this shows what changed.
      </EmptyState>
    );
  }
  return (
    <>
      <div className={styles.between}>
        <Field label="From">
          {(control) => <Select {...control} value={before.version} options={options} onChange={onBase} />}
        </Field>
        <Field label="To">
          {(control) => <Select {...control} value={chosen.version} options={options} onChange={onChosen} />}
        </Field>
      </div>
      {changes.length === 0 ? (
        <p className="muted">
          {before === chosen
            ? 'Choose two different versions.'
            : `${before.version} and ${chosen.version} say the same.`}
        </p>
      ) : (
        <ChangeList label={`Changes from ${before.version} to ${chosen.version}`} changes={changes} />
      )}
    </>
  );
}

/** The version that was made before the other one; for the oldest one the one after it. */
function versionBefore(versions: readonly Definition[], chosen: Definition): Definition | undefined {
  const at = versions.indexOf(chosen);
  return versions[at + 1] ?? versions[at - 1];
}

const ROW_HEIGHT = { line: 40, card: 130 };

const COLUMNS: readonly Column<Definition>[] = [
  {
    header: 'Version',
    width: 'minmax(8rem, 1fr)',
    card: 'title',
    cell: ({ version }) => (
      <span className={definitionsPageStyles.name} title={version}>
        {version}
      </span>
    ),
  },
  {
    header: 'Image',
    width: 'minmax(10rem, 2.4fr)',
    card: 'full',
    cell: ({ image }) => <Line text={image} isCode />,
  },
  { header: 'Created', width: '7rem', cell: ({ createdAt }) => <Time at={createdAt} /> },
  { header: 'Updated', width: '7rem', cell: ({ updatedAt }) => <Time at={updatedAt} /> },
];

interface VersionListProps {
  /** The newest first. */
  readonly versions: readonly Definition[];
  /** Whether there are older ones that are not shown. */
  readonly isCut: boolean;
}

/** The versions of a definition, each leading to what it says. */
function VersionList({ versions, isCut }: VersionListProps) {
  return (
    <>
      {isCut && <p className="muted">The newest {formatCount(versions.length)} versions.</p>}
      <DataTable
        label="Versions"
        columns={COLUMNS}
        rows={versions}
        rowKey={keyOf}
        rowHref={hrefOf}
        rowHeight={ROW_HEIGHT}
        empty={<EmptyState title="There are no versions" />}
      />
    </>
  );
}

function keyOf({ version }: Definition): string {
  return version;
}

function hrefOf({ id, version }: Definition): string {
  return `/definitions/${encodeURIComponent(id)}?version=${encodeURIComponent(version)}`;
}

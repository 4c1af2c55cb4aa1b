import { useMemo } from 'react';
import { ChangeList } from '../../components/values/change-list.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { Field } from '../../components/controls/field.js';
import { Select } from '../../components/controls/inputs.js';
import styles from './definition-page.module.css';
import { changesBetween, type Definition } from './definition-view.js';

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
export function CompareVersions({ versions, base, chosen, onBase, onChosen }: Props) {
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

import { useState } from 'react';
import { Link } from 'wouter';
import { Button } from '../../components/controls/button.js';
import { IconButton } from '../../components/controls/icon.js';
import { Field, TextInput } from '../../components/controls/inputs.js';
import { ConfirmDialog } from '../../components/feedback/dialog.js';
import { Store, useStore } from '../../lib/store.js';
import styles from './run-filter-bar.module.css';
import { RUN_FILTERS, type RunFilters } from './run-filters.js';

/** A name, and the query of the list of runs that it stands for. */
type SavedViews = Readonly<Record<string, string>>;

const STORED = 'longshore.run-views';
const views = new Store(stored());
// Other tabs save views, too.
addEventListener('storage', () => views.set(stored()));

/** Filters that this browser keeps under a name, each a link. @param filters those that can be saved; undefined: none are set */
export function SavedViews({ filters }: { readonly filters: RunFilters | undefined }) {
  const saved = read(useStore(views));
  const [isSaving, setSaving] = useState(false);
  const [name, setName] = useState('');
  const save = async (): Promise<void> => {
    if (name.trim() === '') throw new Error('Enter a name.');
    if (filters !== undefined) write({ ...saved, [name.trim()]: queryOf(filters) });
    setName('');
    await Promise.resolve();
  };
  const remove = (one: string): void => {
    const { [one]: _, ...others } = saved;
    write(others);
  };
  const names = Object.keys(saved).toSorted();
  if (names.length === 0 && filters === undefined) return null;
  return (
    <>
      {names.length > 0 && (
        <ul className={styles.chips} aria-label="Saved views">
          {names.map((one) => (
            <li key={one} className={styles.view}>
              <Link href={`/runs?${saved[one] ?? ''}`}>{one}</Link>
              <IconButton label={`Remove the view ${one}`} icon="close" onClick={() => remove(one)} />
            </li>
          ))}
        </ul>
      )}
      {filters !== undefined && (
        <Button size="small" kind="quiet" onClick={() => setSaving(true)}>
          Save view
        </Button>
      )}
      <ConfirmDialog
        isOpen={isSaving}
        onClose={() => setSaving(false)}
        title="Save this view"
        confirmLabel="Save"
        onConfirm={save}
      >
        <Field label="Name" hint="This browser keeps the filters under it. A view of this name is replaced.">
          {(control) => <TextInput {...control} value={name} onChange={setName} />}
        </Field>
      </ConfirmDialog>
    </>
  );
}

function queryOf(filters: RunFilters): string {
  const set = RUN_FILTERS.filter((name) => filters[name] !== '');
  return new URLSearchParams(set.map((name) => [name, filters[name]])).toString();
}

function stored(): string {
  try {
    return localStorage.getItem(STORED) ?? '{}';
  } catch {
    return '{}';
  }
}

function read(text: string): SavedViews {
  try {
    const parsed: unknown = JSON.parse(text);
    return Object.fromEntries(
      Object.entries(Object(parsed)).filter((view): view is [string, string] => typeof view[1] === 'string'),
    );
  } catch {
    return {};
  }
}

/** @throws Error where the browser keeps nothing */
function write(changed: SavedViews): void {
  localStorage.setItem(STORED, JSON.stringify(changed));
  views.set(stored());
}

import { useState } from 'react';
import { Button } from '../components/controls/button.js';
import { ConfirmDialog } from '../components/feedback/dialog.js';
import { FormRows } from './form-rows.js';
import { readForm, type FormField, type FormValues, type Json } from './form-values.js';

/** Something that may be done to an item. */
export interface ItemAction {
  /** The verb, on its button. */
  readonly label: string;
  /** What will happen. */
  readonly text: string;
  /** What is asked for. */
  readonly fields?: readonly FormField[];
  readonly isDangerous?: boolean;
  /** Does it, and says what became of it. */
  readonly carryOut: (entered: Json) => Promise<unknown>;
}

interface Props {
  readonly actions: readonly ItemAction[];
  /** What it is done to, in the question; absent: the question is the verb alone. */
  readonly subject?: string;
  /** First part of the keys of the queries that are read again afterwards. */
  readonly refreshes: string;
}

/** A button for each action, which asks before it is done. */
export function ItemActions({ actions, subject, refreshes }: Props) {
  const [asked, setAsked] = useState<ItemAction>();
  return (
    <>
      {actions.map((action) => (
        <Button key={action.label} size="small" onClick={() => setAsked(action)}>
          {action.label}
        </Button>
      ))}
      {asked !== undefined && (
        <Question
          action={asked}
          title={subject === undefined ? `${asked.label}?` : `${asked.label} ${subject}?`}
          refreshes={refreshes}
          onClose={() => setAsked(undefined)}
        />
      )}
    </>
  );
}

interface QuestionProps {
  readonly action: ItemAction;
  readonly title: string;
  readonly refreshes: string;
  readonly onClose: () => void;
}

function Question({ action, title, refreshes, onClose }: QuestionProps) {
  const { label, text, fields = [], isDangerous = false, carryOut } = action;
  const [values, setValues] = useState<FormValues>({});
  const { body, errors } = readForm(fields, values);
  const shown = Object.entries(errors).filter(([path]) => values[path] !== undefined);
  return (
    <ConfirmDialog
      onClose={onClose}
      title={title}
      confirmLabel={label}
      isDangerous={isDangerous}
      isDisabled={Object.keys(errors).length > 0}
      refreshes={refreshes}
      onConfirm={() => carryOut(body)}
    >
      <p>{text}</p>
      <FormRows
        rows={[fields]}
        values={values}
        errors={Object.fromEntries(shown)}
        onChange={(path, value) => setValues((now) => ({ ...now, [path]: value }))}
      />
    </ConfirmDialog>
  );
}

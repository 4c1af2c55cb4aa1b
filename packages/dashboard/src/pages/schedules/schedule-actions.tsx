import { useState, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { unwrap, unwrapEmpty } from '../../api/answers.js';
import { useApi, type LongshoreClient } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field, TextInput } from '../../components/controls/inputs.js';
import { ConfirmDialog } from '../../components/feedback/dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import { RunLink } from '../../components/values/named-links.js';
import { FormRows } from '../../run-form/form-rows.js';
import { readForm, type FormValues, type Json } from '../../run-form/form-values.js';
import { field } from '../../run-form/run-fields.js';
import { ScheduleDialog } from './schedule-dialog.js';
import type { Schedule } from './schedule-view.js';

type Action = 'trigger' | 'backfill' | 'pause' | 'resume' | 'edit' | 'delete';

const LABELS: Readonly<Record<Action, string>> = {
  trigger: 'Trigger',
  backfill: 'Backfill',
  pause: 'Pause',
  resume: 'Resume',
  edit: 'Edit',
  delete: 'Delete',
};

/** What may be done to a schedule. */
export function ScheduleActions({ schedule }: { readonly schedule: Schedule }) {
  const [asked, setAsked] = useState<Action>();
  const shown: readonly Action[] = [
    'trigger',
    'backfill',
    schedule.paused ? 'resume' : 'pause',
    'edit',
    'delete',
  ];
  const close = (): void => setAsked(undefined);
  return (
    <>
      {shown.map((action) => (
        <Button key={action} size="small" onClick={() => setAsked(action)}>
          {LABELS[action]}
        </Button>
      ))}
      {asked === 'edit' && <ScheduleDialog onClose={close} schedule={schedule} />}
      {asked !== undefined && asked !== 'edit' && (
        <Question action={asked} schedule={schedule} onClose={close} />
      )}
    </>
  );
}

const FROM = { ...field('time', 'from', 'From', 'The first time that is meant'), required: 'Enter a time.' };
const UNTIL = {
  ...field('time', 'until', 'Until', 'The last one, not in the future'),
  required: 'Enter a time.',
};
const RANGE = [FROM, UNTIL];

interface Props {
  readonly action: Exclude<Action, 'edit'>;
  readonly schedule: Schedule;
  readonly onClose: () => void;
}

function Question({ action, schedule: { id, overlap }, onClose }: Props) {
  const api = useApi();
  const [, navigate] = useLocation();
  const [note, setNote] = useState('');
  const [range, setRange] = useState<FormValues>({});
  const { body, errors } = readForm(RANGE, range);
  const words: Readonly<Record<Props['action'], ReactNode>> = {
    trigger: `It makes a run for the present time${overlap === 'allow' ? '' : ', if its rule for overlaps allows one'}.`,
    backfill: (
      <>
        <p>It makes a run for each time of the past that has none, 1,000 at most, whatever overlaps.</p>
        <FormRows
          rows={[RANGE]}
          values={range}
          errors={Object.fromEntries(Object.entries(errors).filter(([path]) => range[path] !== undefined))}
          onChange={(path, value) => setRange((now) => ({ ...now, [path]: value }))}
        />
      </>
    ),
    pause: (
      <>
        <p>It makes no runs until it is resumed. Runs that were made go on.</p>
        <Field label="Note" hint="Why; optional, shown with the schedule">
          {(control) => <TextInput {...control} maxLength={500} value={note} onChange={setNote} />}
        </Field>
      </>
    ),
    resume: 'It goes on with its next time. Times that passed meanwhile are not made up for.',
    delete: 'What became of its times is deleted with it. Its runs stay.',
  };
  return (
    <ConfirmDialog
      onClose={onClose}
      title={`${LABELS[action]} ${id}?`}
      confirmLabel={LABELS[action]}
      isDangerous={action === 'delete'}
      isDisabled={action === 'backfill' && Object.keys(errors).length > 0}
      refreshes="schedules"
      onConfirm={async () => {
        await carryOut(api, { action, id, note: note.trim(), range: body });
        if (action === 'delete') navigate('/schedules');
      }}
    >
      {words[action]}
    </ConfirmDialog>
  );
}

interface Order {
  readonly action: Props['action'];
  readonly id: string;
  readonly note: string;
  readonly range: Json;
}

/** Does it, and says what became of it. */
async function carryOut(api: LongshoreClient, { action, id, note, range }: Order): Promise<void> {
  const params = { path: { id } };
  switch (action) {
    case 'trigger': {
      const { run_id: run, reason } = await unwrap(api.POST('/schedules/{id}/trigger', { params }));
      if (run === null) return showToast('bad', `No run is created: ${reason ?? 'no reason is known'}`);
      return showToast('good', 'Run ', <RunLink id={run} />, ' is created.');
    }
    case 'backfill': {
      const body = { from: String(range['from']), until: String(range['until']) };
      const result = await unwrap(api.POST('/schedules/{id}/backfill', { params, body }));
      const { times, created, existing, failed } = result;
      const text = `Of ${times} times, ${created} have a new run, ${existing} had one, ${failed} can have none.`;
      return showToast(failed > 0 ? 'bad' : 'good', text);
    }
    case 'pause':
      await unwrap(api.POST('/schedules/{id}/pause', { params, body: note === '' ? {} : { note } }));
      return showToast('good', `${id} is paused.`);
    case 'resume':
      await unwrap(api.POST('/schedules/{id}/resume', { params }));
      return showToast('good', `${id} is resumed.`);
    case 'delete':
      await unwrapEmpty(api.DELETE('/schedules/{id}', { params }));
      return showToast('good', `${id} is deleted.`);
  }
}

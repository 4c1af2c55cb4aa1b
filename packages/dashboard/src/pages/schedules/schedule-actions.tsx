import { useState } from 'react';
import { useLocation } from 'wouter';
import { unwrap, unwrapEmpty } from '../../api/answers.js';
import { useApi, type LongshoreClient } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { showToast } from '../../components/feedback/toasts.js';
import { ItemActions, type ItemAction } from '../../run-form/item-actions.js';
import { field } from '../../run-form/run-fields.js';
import { ScheduleDialog } from './schedule-dialog.js';
import { FireLink } from './fire-marks.js';
import { pageOf, type Fire, type Schedule } from './schedule-view.js';

/** What may be done to a schedule. */
export function ScheduleActions({ schedule }: { readonly schedule: Schedule }) {
  const api = useApi();
  const [, navigate] = useLocation();
  const [isEditing, setEditing] = useState(false);
  return (
    <>
      <Button size="small" onClick={() => setEditing(true)}>
        Edit
      </Button>
      <ItemActions
        actions={actionsOf(schedule, api, () => navigate('/schedules'))}
        subject={schedule.id}
        refreshes="schedules"
      />
      {isEditing && <ScheduleDialog onClose={() => setEditing(false)} schedule={schedule} />}
    </>
  );
}

const FROM = { ...field('time', 'from', 'From', 'The first time that is meant'), required: 'Enter a time.' };
const UNTIL = {
  ...field('time', 'until', 'Until', 'The last one, not in the future'),
  required: 'Enter a time.',
};

function actionsOf(
  { id, paused, overlap }: Schedule,
  api: LongshoreClient,
  onDeleted: () => void,
): readonly ItemAction[] {
  const params = { path: { id } };
  const pause: ItemAction = {
    label: 'Pause',
    text: 'It makes no runs until it is resumed. Runs that were made go on.',
    fields: [field('text', 'note', 'Note', 'Why; optional, shown with the schedule')],
    carryOut: async (body) => {
      await unwrap(api.POST('/schedules/{id}/pause', { params, body }));
      showToast('good', `${id} is paused.`);
    },
  };
  const resume: ItemAction = {
    label: 'Resume',
    text: 'It goes on with its next time. Times that passed meanwhile are not made up for.',
    carryOut: async () => {
      await unwrap(api.POST('/schedules/{id}/resume', { params }));
      showToast('good', `${id} is resumed.`);
    },
  };
  return [
    {
      label: 'Trigger',
      text: `It makes a run for the present time${overlap === 'allow' ? '' : ', if its rule for overlaps allows one'}.`,
      carryOut: async () => tellFire(await unwrap(api.POST('/schedules/{id}/trigger', { params }))),
    },
    {
      label: 'Backfill',
      text: 'It makes a run for each time of the past that has none, 1,000 at most, whatever overlaps.',
      fields: [FROM, UNTIL],
      carryOut: async (range) => {
        const body = { from: String(range['from']), until: String(range['until']) };
        const result = await unwrap(api.POST('/schedules/{id}/backfill', { params, body }));
        const { times, created, existing, failed } = result;
        const text = `Of ${times} times, ${created} have a new run, ${existing} had one, ${failed} can have none.`;
        showToast(failed > 0 ? 'bad' : 'good', text);
      },
    },
    paused ? resume : pause,
    {
      label: 'Delete',
      text: 'What became of its times is deleted with it. Its runs stay.',
      isDangerous: true,
      carryOut: async () => {
        await unwrapEmpty(api.DELETE('/schedules/{id}', { params }));
        showToast('good', `${id} is deleted.`);
        onDeleted();
      },
    },
  ];
}

function tellFire(fire: Fire): void {
  if (pageOf(fire) === null) showToast('bad', `No run is created: ${fire.reason ?? 'no reason is known'}`);
  else showToast('good', fire.run_id === null ? 'Group ' : 'Run ', <FireLink fire={fire} />, ' is created.');
}

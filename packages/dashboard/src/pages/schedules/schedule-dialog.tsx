import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useLocation } from 'wouter';
import { describeError, unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { showToast } from '../../components/feedback/toasts.js';
import { Badge } from '../../components/values/badge.js';
import { Time } from '../../components/values/time.js';
import { useSettled } from '../../hooks/use-settled.js';
import { formatZoned } from '../../lib/format.js';
import { BodyDialog } from '../../run-form/body-dialog.js';
import { FormRows, More } from '../../run-form/form-rows.js';
import { readForm, type FieldKind, type FormField, type Json } from '../../run-form/form-values.js';
import { field, IMAGE, INPUTS, type FieldRows } from '../../run-form/run-fields.js';
import styles from './schedule-page.module.css';
import { toBody, type Schedule } from './schedule-view.js';

interface Props {
  readonly onClose: () => void;
  /** What is changed; absent: a new one is asked for. */
  readonly schedule?: Schedule;
}

/** Stores a schedule, entered in a form or as JSON. */
export function ScheduleDialog({ onClose, schedule }: Props) {
  const rows = schedule === undefined ? [[ID], ...TIME_ROWS] : TIME_ROWS;
  return (
    <BodyDialog
      onClose={onClose}
      title={schedule === undefined ? 'New schedule' : `Edit ${schedule.id}`}
      what="Schedule"
      start={schedule === undefined ? { id: '' } : toBody(schedule)}
      fields={[...rows, ...RUN_ROWS, ...MORE_ROWS].flat()}
      storing={useStore(schedule?.id, onClose)}
    >
      {(form) => (
        <>
          <FormRows rows={rows} focus={schedule === undefined ? 'id' : 'cron'} {...form} />
          <Preview times={readForm(TIME_FIELDS, form.values).body} />
          <FormRows rows={RUN_ROWS} {...form} />
          <More
            summary="Description, overlap, missed times, failures, period"
            hasError={MORE_ROWS.flat().some(({ path }) => form.errors[path] !== undefined)}
          >
            <FormRows rows={MORE_ROWS} {...form} />
          </More>
        </>
      )}
    </BodyDialog>
  );
}

/** Stores what is entered and opens its page. */
function useStore(stored: string | undefined, onClose: () => void) {
  const api = useApi();
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  return useMutation({
    mutationFn: ({ id: entered = '', ...rest }: Json) => {
      // Without a run the service says what one needs.
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what people enter; the service checks it
      const body = ('group' in rest ? rest : { run: {}, ...rest }) as Schemas['SchedulePut'];
      const id = stored ?? String(entered);
      return unwrap(api.PUT('/schedules/{id}', { params: { path: { id } }, body }));
    },
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: ['schedules'] });
      const page = `/schedules/${encodeURIComponent(id)}`;
      showToast('good', 'The schedule ', <Link href={page}>{id}</Link>, ' is stored.');
      onClose();
      navigate(page);
    },
  });
}

/** How long nothing is entered before the service is asked. */
const PAUSE_MS = 400;

/** The next ten times by what is entered, and what is wrong with it. */
function Preview({ times }: { readonly times: Json }) {
  const api = useApi();
  const { cron, every_s: every, timezone, starts_at: start, ends_at: end } = times;
  const isEntered = cron !== undefined || every !== undefined;
  const asked = JSON.stringify(times);
  const isSettled = useSettled(asked, PAUSE_MS) === asked;
  const { data, error } = useQuery({
    queryKey: ['schedule-preview', asked],
    queryFn: async ({ signal }) => {
      const from = timeOf(start) - 1;
      const { starts_at: _start, ends_at: _end, ...entered } = times;
      const whole = { ...entered, ...(from > Date.now() && { from: new Date(from).toISOString() }) };
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what people enter; the service checks it
      const body = whole as Schemas['SchedulePreviewRequest'];
      const { times: next } = await unwrap(api.POST('/schedules/preview', { body, signal }));
      return { next, zone: typeof timezone === 'string' ? timezone : 'UTC' };
    },
    enabled: isEntered && isSettled,
    placeholderData: keepPreviousData,
  });
  const shown = data?.next.filter(({ at }) => end === undefined || timeOf(at) <= timeOf(end)) ?? [];
  return (
    <section className={styles.preview} aria-label="Next times">
      {!isEntered && <p className="muted">Enter an expression or an interval to see the next times.</p>}
      {isEntered && error !== null && <p className={styles.error}>{describeError(error)}</p>}
      {isEntered && <Times times={shown} zone={data?.zone ?? 'UTC'} />}
    </section>
  );
}

/** Milliseconds since 1970; NaN of nothing. */
function timeOf(iso: unknown): number {
  return typeof iso === 'string' ? Date.parse(iso) : Number.NaN;
}

const NOTES = { skipped_hour: 'skipped hour', repeated_hour: 'repeated hour' } as const;

interface TimesProps {
  readonly times: readonly Schemas['ScheduleTime'][];
  readonly zone: string;
}

/** Times, by the clock of the zone, with what the clock does there. */
export function Times({ times, zone }: TimesProps) {
  return (
    <ol className={styles.times}>
      {times.map(({ at, note }) => (
        <li key={at}>
          {formatZoned(at, zone)}
          <span className="muted">
            <Time at={at} />
          </span>
          {note !== undefined && <Badge tone="warn">{NOTES[note]}</Badge>}
        </li>
      ))}
    </ol>
  );
}

/** A field of the body of a run, whose problems are told behind `run: `. */
function runField(kind: FieldKind, name: string, label: string, hint: string): FormField {
  return { ...field(kind, `run: ${name}`, label, hint), keys: ['run', name] };
}

const ID = field('text', 'id', 'Id', 'Letters, digits and . _ -');

const TIME_ROWS: FieldRows = [
  [
    field('words', 'cron', 'Cron expressions', 'One per line, such as 0 3 * * * or @daily'),
    field('text', 'timezone', 'Time zone', 'Such as Europe/Berlin; default UTC'),
  ],
  [
    field('integer', 'every_s', 'Or every so many seconds', 'In place of cron; 10 at least'),
    field('integer', 'offset_s', 'Later by so many seconds', 'Of an interval; default 0'),
  ],
];

const PERIOD_ROW: readonly FormField[] = [
  field('time', 'starts_at', 'From', 'No time before it; optional'),
  field('time', 'ends_at', 'Until', 'No time after it; optional'),
];

const TIME_FIELDS = [...TIME_ROWS.flat(), ...PERIOD_ROW];

const RUN_ROWS: FieldRows = [
  [
    runField('text', 'definition', 'Definition', 'Either a definition or an image'),
    runField('text', 'version', 'Version', 'Default: the latest at each time'),
  ],
  [
    runField('text', 'image', 'Image', IMAGE.hint ?? ''),
    runField('words', 'args', 'Arguments', "One per line, in place of the image's own"),
  ],
  [
    runField(
      'object',
      'inputs',
      INPUTS.label,
      'A JSON object, in which ${schedule.time} and ${schedule.date} are replaced. All else, such as labels: edit as JSON.',
    ),
  ],
];

const OVERLAP: FormField = {
  ...field('text', 'overlap', 'While a run has not ended', 'What happens at the next time'),
  choices: [
    ['', 'Default: skip the time'],
    ['skip', 'Skip the time'],
    ['allow', 'Make a run beside it'],
    ['queue_one', 'Make one that waits'],
    ['cancel_previous', 'Cancel the earlier run'],
  ],
};

const CATCH_UP: FormField = {
  ...field('text', 'catch_up.policy', 'Missed times', 'That passed while the service was down'),
  choices: [
    ['', 'Default: the latest'],
    ['latest', 'Make up for the latest'],
    ['all', 'Make up for all, 100 at most'],
    ['none', 'Make up for none'],
  ],
};

const MORE_ROWS: FieldRows = [
  [field('text', 'description', 'Description', 'What it is for; optional')],
  [OVERLAP, CATCH_UP],
  [
    field('integer', 'catch_up.window_s', 'Missed for at most, in s', 'Older times: never; default a day'),
    field('integer', 'pause_after_failures', 'Pause after failures', 'Runs FAILED in a row; default: never'),
    field('integer', 'jitter_s', 'Spread in s', 'A fixed delay up to this; default 0'),
  ],
  PERIOD_ROW,
];

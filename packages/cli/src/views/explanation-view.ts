import type { Schemas } from '@longshore/client';
import { colourOfState, oneLine, paint } from '../style.js';
import { formatFields, formatTable, span, type Column, type TableStyle } from '../table.js';

type Explanation = Schemas['RunExplanation'];
type Worker = Schemas['ExplainedWorker'];

const COLUMNS: readonly Column<Worker>[] = [
  { title: 'WORKER', text: ({ id }) => id },
  { title: 'NOW', text: ({ can_take_now: can }) => (can ? 'yes' : 'no') },
  { title: 'EVER', text: ({ could_ever: could }) => (could ? 'yes' : 'no') },
  { title: 'BECAUSE', text: because, isElastic: true },
];

/** Why a run is where it is: a sentence, then what it rests on. */
export function explanationText(explained: Explanation, style: TableStyle): string {
  const { queue, deadline, holder, counts, workers } = explained;
  const facts = formatFields(
    [
      ['state', paint(explained.state, colourOfState(explained.state), style.colours)],
      ['attempt', String(explained.attempt)],
      ['strategy', explained.strategy],
      [
        'place in queue',
        queue === null || queue.position === null
          ? undefined
          : `${queue.position_is_exact ? '' : 'beyond '}${queue.position}`,
      ],
      ['waiting', queue === null ? undefined : span(queue.waiting_ms)],
      ['back-off until', queue?.not_before ?? undefined],
      ['kept free for it', queue?.reserved_for ?? undefined],
      [
        'deadline',
        deadline === null ? undefined : `${deadline.budget} over in ${span(deadline.remaining_ms)}`,
      ],
      ['worker', holder?.worker_id ?? undefined],
      [
        'last heard',
        holder === null || holder.silent_ms === null ? undefined : `${span(holder.silent_ms)} ago`,
      ],
      [
        'workers',
        counts === null
          ? undefined
          : `${counts.active} active (${counts.able_now} can take it now, ${counts.able_ever} ever), ${counts.draining} draining, ${counts.stale} lost`,
      ],
    ],
    style.colours,
  );
  const table = workers.length === 0 ? '' : `\n${formatTable(COLUMNS, workers, style)}`;
  return `${oneLine(explained.summary)}\n\n${facts}${table}`;
}

function because({ obstacles, draining }: Worker): string {
  const reasons = obstacles.map(
    ({ resource, needed, free, total }) => `${resource}: needs ${needed}, free ${free} of ${total}`,
  );
  return [...(draining ? ['draining'] : []), ...reasons].join('; ') || '-';
}

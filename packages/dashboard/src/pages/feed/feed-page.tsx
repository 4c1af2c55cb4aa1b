import { useQuery } from '@tanstack/react-query';
import { useId, useState, type FormEvent } from 'react';
import { unwrap } from '../../api/answers.js';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field, Select, Suggestions, TextInput } from '../../components/controls/inputs.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { PageHeader } from '../../shell/page-header.js';
import styles from './feed-page.module.css';
import { FeedTail } from './feed-tail.js';
import { startOf, STARTS, type Start } from './use-feed.js';

const FILTERS = ['topic', 'from', 'q'] as const;

/** Follows the feed of a topic. */
export default function FeedPage() {
  const [filters, setFilters] = useUrlFilters(FILTERS);
  const { topic } = filters;
  const start = startOf(filters.from);
  return (
    <>
      <PageHeader title={topic === '' ? 'Feed' : `Feed: ${topic}`} />
      <TopicForm
        key={topic}
        topic={topic}
        start={start}
        onTopic={(next) => setFilters({ topic: next, q: '' }, { isNewPage: true })}
        onStart={(next) => setFilters({ from: next })}
      />
      {topic === '' ? (
        <EmptyState icon="feed" title="Which topic?">
          Runs that name a topic in their event_delivery have all their events mirrored to its feed, in one
          order that is the same for everybody. Enter a topic to follow it live.
        </EmptyState>
      ) : (
        <FeedTail
          key={`${start} ${topic}`}
          topic={topic}
          start={start}
          q={filters.q}
          onSearch={(q) => setFilters({ q })}
        />
      )}
    </>
  );
}

const MAX_DEFINITIONS = 200;
const MAX_RUNS = 100;

interface Props {
  readonly topic: string;
  readonly start: Start;
  readonly onTopic: (topic: string) => void;
  readonly onStart: (start: Start) => void;
}

/** Asks for a topic and a start. Suggests the topics of definitions and of the newest runs. */
function TopicForm({ topic, start, onTopic, onStart }: Props) {
  const api = useApi();
  const [text, setText] = useState(topic);
  const listId = useId();
  const { data: definitions = [] } = useQuery({
    queryKey: ['definitions', 'topics'],
    queryFn: ({ signal }) =>
      unwrap(api.GET('/latest-definitions', { params: { query: { limit: MAX_DEFINITIONS } }, signal })),
  });
  const { data: runs } = useQuery({
    queryKey: ['runs', 'topics'],
    queryFn: ({ signal }) => {
      const query = { limit: MAX_RUNS, include_events: false };
      return unwrap(api.GET('/runs', { params: { query }, signal }));
    },
  });
  const sources = [...definitions, ...(runs?.data ?? [])];
  const topics = new Set(sources.flatMap(({ event_delivery: delivery }) => delivery?.topic ?? []));
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (text !== '') onTopic(text);
  };
  return (
    <form className={styles.bar} onSubmit={submit}>
      <Field label="Topic">
        {(control) => (
          <TextInput
            {...control}
            list={listId}
            value={text}
            onChange={setText}
            maxLength={255}
            autoComplete="off"
            spellCheck={false}
            autoFocus={topic === ''}
          />
        )}
      </Field>
      <Suggestions id={listId} texts={[...topics]} />
      <div className={styles.start}>
        <Field label="Begin with">
          {(control) => <Select {...control} value={start} options={STARTS} onChange={onStart} />}
        </Field>
      </div>
      <Button type="submit" kind={text === topic ? 'plain' : 'primary'}>
        Follow
      </Button>
    </form>
  );
}

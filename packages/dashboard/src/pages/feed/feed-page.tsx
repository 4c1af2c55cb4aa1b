import { EmptyState } from '../../components/feedback/empty-state.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { PageHeader } from '../../shell/page-header.js';
import { FeedTail } from './feed-tail.js';
import { startOf } from './feed-start.js';
import { TopicForm } from './topic-form.js';

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

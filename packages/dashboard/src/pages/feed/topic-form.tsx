import { useQuery } from '@tanstack/react-query';
import { useId, useState, type FormEvent } from 'react';
import { unwrap } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/button.js';
import { Field } from '../../components/field.js';
import { Select, TextInput } from '../../components/inputs.js';
import { STARTS, type Start } from './feed-start.js';
import styles from './feed-page.module.css';

const MOST_SUGGESTED = 200;

interface Props {
  readonly topic: string;
  readonly start: Start;
  readonly onTopic: (topic: string) => void;
  readonly onStart: (start: Start) => void;
}

/** Asks for a topic, with those of definitions at hand, and where to begin. */
export function TopicForm({ topic, start, onTopic, onStart }: Props) {
  const api = useApi();
  const [text, setText] = useState(topic);
  const listId = useId();
  const { data } = useQuery({
    queryKey: ['definitions', 'topics'],
    queryFn: ({ signal }) =>
      unwrap(api.GET('/latest-definitions', { params: { query: { limit: MOST_SUGGESTED } }, signal })),
  });
  const topics = new Set(data?.flatMap(({ event_delivery: delivery }) => delivery?.topic ?? []));
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
      <datalist id={listId}>
        {[...topics].map((name) => (
          <option key={name}>{name}</option>
        ))}
      </datalist>
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

import { useMutation } from '@tanstack/react-query';
import { useEffect, useRef, useState, type DragEvent } from 'react';
import { describeError } from '../api/answers.js';
import { useApi } from '../api/use-api.js';
import { Button } from '../components/controls/button.js';
import { TextInput, type ControlProps } from '../components/controls/inputs.js';
import { ProgressBar } from '../components/values/progress-bar.js';
import { UploadedFile } from '../files/file-links.js';
import { isFileId } from '../files/file-refs.js';
import { uploadFile } from '../files/upload.js';
import { classNames } from '../lib/class-names.js';
import styles from './file-field.module.css';
import { awaitedFile } from './form-values.js';

interface Props extends ControlProps {
  /** Name of the field. */
  readonly label: string;
  readonly value: string;
  readonly placeholder: string | undefined;
  readonly onChange: (value: string) => void;
}

/** A file that is dropped or chosen here, which is sent at once, or the id of one. */
export function FileField({ label, value, placeholder, onChange, ...control }: Props) {
  const api = useApi();
  const chooser = useRef<HTMLInputElement>(null);
  const stop = useRef<AbortController>(undefined);
  const [isOver, setOver] = useState(false);
  const [percent, setPercent] = useState(0);
  const show = (share: number): void => setPercent(Math.floor(share * 100));
  const upload = useMutation({
    mutationFn: (file: File) => {
      stop.current = new AbortController();
      return uploadFile(api, { file, signal: stop.current.signal, onProgress: show });
    },
    onMutate: ({ name }) => {
      setPercent(0);
      onChange(awaitedFile(name));
    },
    onSuccess: onChange,
    onError: () => onChange(''),
  });
  useEffect(() => () => stop.current?.abort(), []);
  const take = (files: FileList | null): void => {
    const [file] = files ?? [];
    if (file !== undefined && !upload.isPending) upload.mutate(file);
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer.files);
  };
  const isStopped = upload.error instanceof DOMException;
  return (
    <div
      className={classNames(styles.zone, isOver && styles.over)}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <div className={styles.row}>
        <TextInput
          {...control}
          mono
          autoComplete="off"
          spellCheck={false}
          placeholder={placeholder ?? 'Id of a file, or drop one here'}
          readOnly={upload.isPending}
          value={value}
          onChange={onChange}
        />
        {upload.isPending ? (
          <Button onClick={() => stop.current?.abort()}>Stop</Button>
        ) : (
          <Button aria-label={`Choose a file for ${label}`} onClick={() => chooser.current?.click()}>
            Choose …
          </Button>
        )}
      </div>
      <input
        ref={chooser}
        type="file"
        hidden
        aria-label={`File for ${label}`}
        onChange={({ target }) => {
          take(target.files);
          target.value = '';
        }}
      />
      <div aria-live="polite" className={styles.status}>
        {upload.isPending && <ProgressBar label={`Upload for ${label}`} percent={percent} />}
        {upload.isError && !isStopped && value === '' && (
          <p className={styles.error}>{describeError(upload.error)}</p>
        )}
        {isFileId(value) && <UploadedFile id={value} />}
      </div>
    </div>
  );
}

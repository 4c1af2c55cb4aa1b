import { useEffect, useState } from 'react';
import { showToast } from '../feedback/toasts.js';
import { IconButton } from './icon.js';

const SHOWN_MS = 1500;

interface Props {
  /** What is copied, for its label: `run id`. */
  readonly what: string;
  readonly text: string;
}

/** Puts a text into the clipboard. */
export function CopyButton({ what, text }: Props) {
  const [isDone, setDone] = useState(false);
  useEffect(() => {
    if (!isDone) return undefined;
    const timer = setTimeout(() => setDone(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isDone]);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setDone(true);
    } catch {
      // Over plain http, on another machine than this one, browsers give pages no clipboard.
      showToast('bad', `The browser does not let this page copy. The ${what}:\n${text}`);
    }
  };
  return (
    <IconButton
      label={isDone ? 'Copied' : `Copy the ${what}`}
      icon={isDone ? 'check' : 'copy'}
      onClick={() => void copy()}
    />
  );
}

import type { Upload, UploadRequest } from '../service-api/run-artifacts.js';
import type { Answer, RunHolder } from '../service-api/service-api.js';
import type { FakeRun } from './fake-run.js';

/** Signs the upload of one file of a run. */
export type SignUpload = (runId: string, name: string, bytes?: number) => Upload;

/** What a fake service answers to a request for uploads. @param sign null: files are not configured */
export function signUploads(
  sign: SignUpload | null,
  run: FakeRun | undefined,
  { names, bytes }: UploadRequest,
  { workerId, attempt }: RunHolder,
): Answer<Readonly<Record<string, Upload>>> {
  if (sign === null)
    return { kind: 'unreachable', reason: 'HTTP 503: Files are not configured', status: 503 };
  if (run?.workerId !== workerId || run.attempt !== attempt)
    return { kind: 'refused', status: 409, detail: 'The run is not assigned to this worker' };
  return { kind: 'ok', value: Object.fromEntries(names.map((name) => [name, sign(run.id, name, bytes)])) };
}

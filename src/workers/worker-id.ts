/** What a worker's id looks like: 1-128 characters, the first one alphanumeric. */
export const WORKER_ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/;

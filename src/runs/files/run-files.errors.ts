/** The end of an attempt is reported, and the store was not asked yet what it has left; nothing has changed. */
export class FilesUnchecked extends Error {
  constructor(readonly attempt: number) {
    super('the store was not asked what the attempt has left');
  }
}

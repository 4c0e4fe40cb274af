// Names of the jobs that views have loaded. Events and leases carry ids only.

const names = new Map<string, string>();

export function rememberJob(id: string, name: string): void {
  names.set(id, name);
}

export function jobName(id: string): string | undefined {
  return names.get(id);
}

/** The id of the job with this name that was loaded last. */
export function jobIdOf(name: string): string | undefined {
  let found: string | undefined;
  for (const [id, known] of names) if (known === name) found = id;
  return found;
}

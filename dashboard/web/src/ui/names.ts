// Names of the jobs that views have loaded. Events and leases carry ids only.

const names = new Map<string, string>();

export function rememberJob(id: string, name: string): void {
  names.set(id, name);
}

export function jobName(id: string): string | undefined {
  return names.get(id);
}

// Names of jobs that were seen, for messages about them.

const names = new Map<string, string>();

export function rememberJob(id: string, name: string): void {
  names.set(id, name);
}

export function jobName(id: string): string | undefined {
  return names.get(id);
}

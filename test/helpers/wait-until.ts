const pollMs = 10;

/** Resolves once the condition holds; throws after `timeoutMs`, naming what did not happen. */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  { timeoutMs, what }: { timeoutMs: number; what: string },
): Promise<void> {
  const deadlineAt = Date.now() + timeoutMs;
  while (!(await condition())) {
    if (Date.now() > deadlineAt) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, pollMs));
  }
}

import { eventually } from './eventually.ts'

/**
 * Waits until the API server serves the kinds that `kubectl wait` is given. For a CustomResourceDefinition that has no
 * condition yet, which it may not have right after it was applied, `kubectl wait` fails instead of waiting.
 */
export async function established(kubectl: (...args: string[]) => Promise<string>, ...what: string[]): Promise<void> {
  await eventually('the first condition of the CustomResourceDefinition', () =>
    kubectl('wait', '--for=condition=Established', ...what, '--timeout=240s').then(
      () => true,
      (error: Error) => {
        if (/conditions accessor error/.test(error.message)) return false
        throw error
      },
    ),
  )
}

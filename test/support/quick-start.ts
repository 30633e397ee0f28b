/** What lets a Node process start sooner (run-tests.ts), for a child that inherits nothing else of the environment. */
export function quickStart(): Record<string, string> {
  const { NODE_COMPILE_CACHE, NODE_OPTIONS } = process.env
  return { ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }), ...(NODE_OPTIONS && { NODE_OPTIONS }) }
}

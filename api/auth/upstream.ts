/** A failed request to the identity provider. A refusal by the provider is not a failure. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
}

export interface UpstreamReply {
  status: number
  body: unknown
  retryAfter: string | null
}

/**
 * One JSON request to the identity provider: no redirects, bounded in time and size. `body` is undefined if the
 * response is not JSON. Throws UpstreamError without a response or for 5xx.
 */
export async function askUpstream(
  url: string,
  options: {
    form?: URLSearchParams
    authorization?: string
    timeoutMs: number
    maxBytes: number
    signal?: AbortSignal
  },
): Promise<UpstreamReply> {
  const timeout = AbortSignal.timeout(options.timeoutMs)
  try {
    const response = await fetch(url, {
      redirect: 'error',
      signal: options.signal ? AbortSignal.any([options.signal, timeout]) : timeout,
      headers: { accept: 'application/json', ...(options.authorization && { authorization: options.authorization }) },
      ...(options.form && { method: 'POST', body: options.form }),
    })
    const body = await readCapped(response, options.maxBytes)
    if (response.status >= 500) throw new UpstreamError(`the identity provider responded ${response.status}`)
    return { status: response.status, body: parsed(body), retryAfter: response.headers.get('retry-after') }
  } catch (cause) {
    if (cause instanceof UpstreamError) throw cause
    throw new UpstreamError('the identity provider did not respond', { cause })
  }
}

async function readCapped(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of response.body ?? []) {
    size += chunk.length
    // Leaving the loop cancels the rest.
    if (size > maxBytes) throw new UpstreamError('the response of the identity provider is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

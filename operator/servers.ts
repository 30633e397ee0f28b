import type { IncomingMessage, ServerResponse } from 'node:http'
import type { OperatorConfig } from './config.ts'
import type { OperatorMetrics } from './operator-metrics.ts'
import { type HttpServer, listen } from './runtime/http-server.ts'

interface Handlers {
  progress(req: IncomingMessage, res: ServerResponse): void
  isReady(): boolean
}

/** Opens progress, health and metrics, each on its own port. When one fails, the others are closed again. */
export async function openServers(config: OperatorConfig, metrics: OperatorMetrics, { progress, isReady }: Handlers) {
  const open: HttpServer[] = []
  const opened = async (port: number, handle: (req: IncomingMessage, res: ServerResponse) => void) => {
    const server = await listen(config.HOST, port, handle)
    open.push(server)
    return server
  }
  const plain = (res: ServerResponse, status: number, text: string) =>
    res.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(text)
  try {
    return {
      progress: await opened(config.PROGRESS_PORT, progress),
      health: await opened(config.HEALTH_PORT, (req, res) => {
        const path = req.url?.split('?')[0]
        if (path === '/livez' || path === '/healthz') plain(res, 200, 'ok')
        else if (path === '/readyz') plain(res, isReady() ? 200 : 503, isReady() ? 'ok' : 'caches are not complete')
        else plain(res, 404, 'not found')
      }),
      metrics: await opened(config.METRICS_PORT, (req, res) => {
        if (req.url?.split('?')[0] !== '/metrics') return void plain(res, 404, 'not found')
        metrics.registry.metrics().then(
          (text) => res.writeHead(200, { 'content-type': metrics.registry.contentType }).end(text),
          () => plain(res, 500, 'metrics failed'),
        )
      }),
    }
  } catch (error) {
    await Promise.all(open.map((s) => s.close()))
    throw error
  }
}

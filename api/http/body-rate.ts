import type { RequestHandler } from 'express'
import { Problem } from '../../lib/contract/problem.ts'
import { hasBody } from './json-body.ts'
import { sendProblem } from './problems.ts'
import { stateOf } from './request.ts'

export interface BodyLimits {
  /** A body that arrives more slowly than this over one window is cut off. */
  bytesPerSecond: number
  windowMs: number
  /** How long the rest of a body may still arrive after its request has been answered. */
  lingerMs: number
}
/** How often per window we look whether the client or we are the slow side. */
const SAMPLES = 10

export const BODY_LIMITS: BodyLimits = { bytesPerSecond: 16 * 1024, windowMs: 30_000, lingerMs: 10_000 }

/**
 * Watches bodies arrive. A client that sends drop by drop would hold a connection and its buffers for as long as the
 * request timeout. One that sends on although it has been refused gets a while to read its answer.
 */
export function watchBodies(limits: BodyLimits): RequestHandler {
  return (req, res, next) => {
    if (!hasBody(req)) return next()
    const { socket } = req
    let before = socket.bytesRead
    let sample = 0
    const timer = setInterval(() => {
      if (req.complete) return clearInterval(timer)
      // While our side does not take what has arrived, the client is not to blame.
      if (req.readableLength >= req.readableHighWaterMark || req.isPaused()) {
        before = socket.bytesRead
        sample = 0
        return
      }
      sample += 1
      if (sample < SAMPLES) return
      const sent = socket.bytesRead - before
      before = socket.bytesRead
      sample = 0
      if (sent < (limits.bytesPerSecond * limits.windowMs) / 1000) cut()
    }, limits.windowMs / SAMPLES).unref()

    const cut = () => {
      clearInterval(timer)
      const { requestId, log } = stateOf(res)
      log.warn('request body arrives too slowly')
      if (!res.headersSent) {
        res.set('Connection', 'close')
        sendProblem(res, new Problem('REQUEST_TIMEOUT', 'The request body arrived too slowly'), requestId)
      }
      // The answer first, then the connection. Destroying the request instead of the socket: Node tells a request that has
      // been answered nothing of its socket's end, and whoever still reads it would wait for ever.
      socket.end(() => req.destroy())
    }
    res.once('finish', () => {
      clearInterval(timer)
      if (req.complete) return
      const linger = setTimeout(() => req.destroy(), limits.lingerMs).unref()
      req.once('end', () => clearTimeout(linger)).once('close', () => clearTimeout(linger))
      req.resume()
    })
    res.once('close', () => clearInterval(timer))
    next()
  }
}

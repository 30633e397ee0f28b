import type { RequestHandler } from 'express'
import { Problem } from '../../lib/contract/problem.ts'
import { hasBody, isJson } from './json-body.ts'
import { sendProblem } from './problems.ts'
import { stateOf } from './request.ts'

export interface BodyLimits {
  /** The server cuts off a body that arrives more slowly than this over one window. */
  bytesPerSecond: number
  windowMs: number
  /** The window of a document: most arrive whole in it, and one that stalls must not hold its slot for long. */
  documentWindowMs: number
  /** How long the rest of a body may still arrive after the response. */
  lingerMs: number
}
/** Samples per window. Each determines whether the client or this server is the slow side. */
const SAMPLES = 10

export const BODY_LIMITS: BodyLimits = {
  bytesPerSecond: 16 * 1024,
  windowMs: 30_000,
  documentWindowMs: 5000,
  lingerMs: 10_000,
}

/**
 * Limits how slowly a body may arrive. A very slow client would hold a connection and its buffers until the request
 * timeout. A client that keeps sending after a refusal gets `lingerMs` to read the response.
 */
export function watchBodies(limits: BodyLimits): RequestHandler {
  return (req, res, next) => {
    if (!hasBody(req)) return next()
    const { socket } = req
    // Routes take documents only as JSON, and only documents: any other type is refused before its body is read.
    const windowMs = isJson(req) ? limits.documentWindowMs : limits.windowMs
    let before = socket.bytesRead
    let sample = 0
    const timer = setInterval(() => {
      if (req.complete) return clearInterval(timer)
      // While this server does not read what has arrived, or has not begun to, the client is not the slow side.
      const isWaiting = req.readableFlowing === null || req.isPaused()
      if (isWaiting || req.readableLength >= req.readableHighWaterMark) {
        before = socket.bytesRead
        sample = 0
        return
      }
      sample += 1
      if (sample < SAMPLES) return
      const sent = socket.bytesRead - before
      before = socket.bytesRead
      sample = 0
      if (sent < (limits.bytesPerSecond * windowMs) / 1000) cut()
    }, windowMs / SAMPLES).unref()

    const cut = () => {
      clearInterval(timer)
      const { requestId, log } = stateOf(res)
      log.warn('request body arrives too slowly')
      if (!res.headersSent) {
        res.set('Connection', 'close')
        sendProblem(res, new Problem('REQUEST_TIMEOUT', 'The request body arrived too slowly'), requestId)
      }
      // The response first, then the connection. Destroy the request, not the socket: once a request has its response,
      // Node does not tell it that the socket has ended, and a handler that still reads it would wait forever.
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
